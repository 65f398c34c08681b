"""Builds from and into a storage without folders, locks and appends, as object stores are."""

from __future__ import annotations

import json
import shutil
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs import ImageOptions, TextOptions, preprocess
from beam_jobs.corpus.discovery import expand_globs, find_files
from beam_jobs.progress import Follower, report
from beam_jobs.repair import repair
from foundation import storage
from foundation.storage.lease import Lease
from shard_format import InputError, Scope, naming, verify_set
from tests.fixtures.proofs import examples

OUT = "memory://bucket/set"
LEASES = storage.Url(f"{OUT}/{naming.WORK_DIR}/leases")
OPTIONS = {"resize": "shorter:32", "num_shards": 3, "split": "train=0.8,test=0.2"}


def build(sources, out, **options):
    return preprocess(ImageOptions((str(sources),), str(out), **{**OPTIONS, **options}))


@pytest.fixture(scope="module")
def local(samples, tmp_path_factory):
    out = tmp_path_factory.mktemp("local") / "set"
    return build(samples, out).manifest, out


def names_in(memory, url):
    return sorted(name for name, _ in memory.list_tree(url))


def test_a_set_in_a_bucket_has_the_bytes_of_a_local_one(memory, samples, local):
    manifest, folder = local
    source = memory.copy(samples, "bucket/photos")
    done = build(source, OUT, staging="memory://bucket/staging")
    assert done.manifest == manifest
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*")}
    assert names_in(memory, OUT) == sorted(files)  # nothing of the build is left
    # The last two name the sources, whose names differ.
    for name in files.keys() - {naming.BUILD, naming.REPORT, naming.CROISSANT, naming.CARD}:
        assert storage.read_bytes(storage.Url(f"{OUT}/{name}")) == files[name].read_bytes()
    assert names_in(memory, "memory://bucket/staging")
    again = build(source, OUT, staging="memory://bucket/staging")
    assert again.already_built


def test_a_damaged_set_in_a_bucket_is_repaired(memory, samples, local):
    source = memory.copy(samples, "bucket/photos")
    manifest = build(source, OUT).manifest
    whole = dict(memory.objects)
    shard = storage.Url(f"{OUT}/{manifest.splits['train'].shards[1].file}")
    data = bytearray(storage.read_bytes(shard))
    data[len(data) // 2] ^= 1
    storage.write_bytes(shard, bytes(data))
    storage.delete(storage.Url(f"{OUT}/{naming.FEATURES}"))
    memory.requests = 0
    assert len(verify_set(storage.Url(OUT), Scope(0)).damages) == 1  # quick: sizes alone
    assert memory.requests < 20
    done = repair(storage.Url(OUT))
    assert sorted(done.repaired) == sorted([naming.FEATURES, shard.name])
    assert (done.lost, done.left) == ([], [])
    assert {url: data for url, (data, _) in memory.objects.items()} == {
        url: data for url, (data, _) in whole.items()
    }


def test_tokens_and_a_trained_tokenizer_have_the_same_bytes(memory, tmp_path):
    folder = tmp_path / "texts"
    for label in ("a", "b"):
        (folder / label).mkdir(parents=True)
        for number in range(40):
            words = " ".join(f"word{(number * step) % 23}" for step in range(1, 30))
            (folder / label / f"{number}.txt").write_text(f"{label} {number}. {words}.")
    options = {"train_tokenizer": "bpe:300", "pack": 32, "dedup": "near", "clean": "none"}
    here = preprocess(TextOptions((str(folder),), str(tmp_path / "set"), **options))
    source = memory.copy(folder, "bucket/texts")
    there = preprocess(TextOptions((str(source),), OUT, **options))
    assert there.manifest.root_hash == here.manifest.root_hash


def test_a_manifest_that_came_meanwhile_is_not_replaced(memory, samples, monkeypatch):
    from beam_jobs.stages.commit import shard_set

    def write_build_info(*_):
        storage.write_bytes(storage.Url(f"{OUT}/{naming.MANIFEST}"), b"another set")

    monkeypatch.setattr(shard_set, "write_build_info", write_build_info)
    with pytest.raises(InputError, match="Another build has finished a set"):
        build(memory.copy(samples, "bucket/photos"), OUT)
    assert storage.read_bytes(storage.Url(f"{OUT}/{naming.MANIFEST}")) == b"another set"


@pytest.fixture
def notes():
    return []


def lease(notes):
    return Lease(LEASES, storage.Url(OUT), notes.append)


def test_a_second_build_into_one_place_is_refused(memory, notes, monkeypatch):
    monkeypatch.setattr("foundation.storage.lease.RENEW_SECONDS", 0.05)
    with lease(notes).held():
        with pytest.raises(InputError, match=r"Another build \(process \d+ on .*\) is writing to"):
            with lease(notes).held():
                pass
        assert len(names_in(memory, LEASES)) == 1
    assert names_in(memory, LEASES) == []
    assert len(notes) == 1 and "may have been killed" in notes[0]


def test_a_stale_lease_is_taken_over(memory, notes):
    memory.objects[f"{LEASES}/7.lease"] = (b"{}", 0)
    with lease(notes).held():
        assert names_in(memory, LEASES) == ["7.lease", "8.lease"]
    assert names_in(memory, LEASES) == [] and notes == []


def test_the_lease_of_a_killed_process_of_this_machine_is_taken_over_at_once(memory, notes):
    with lease(notes).held():
        (name,) = names_in(memory, LEASES)
        content, changed = memory.objects[f"{LEASES}/{name}"]
    dead = json.dumps({**json.loads(content), "process": 2**22 + 1}).encode()
    memory.objects[f"{LEASES}/1.lease"] = (dead, changed)
    with lease(notes).held():
        assert "2.lease" in names_in(memory, LEASES)
    assert notes == []


def test_one_of_many_builds_gets_a_stale_lease(memory, notes):
    memory.objects[f"{LEASES}/1.lease"] = (b"{}", 0)
    start, refused, held = threading.Barrier(8), [], []

    def run():
        start.wait()
        try:
            with lease([]).held():
                held.append(1)
                over.wait(20)
        except InputError:
            refused.append(1)

    over = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foundation.storage.lease.RENEW_SECONDS", 0.05)
        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(refused) + len(held) < 8:
            over.wait(0.02)
        over.set()
        for thread in threads:
            thread.join()
    assert (len(held), len(refused)) == (1, 7)


class IgnoringConditions:
    """A store that takes every write."""

    def __init__(self, memory):
        self._memory = memory

    def __getattr__(self, name):
        return getattr(self._memory, name)

    def create(self, place, *, durable, if_absent, scratch):
        return self._memory.create(place, durable=durable, if_absent=False, scratch=scratch)


def test_a_build_that_starts_at_the_same_moment_is_named(memory, samples, monkeypatch):
    """Its lease makes the folder after this one has seen none."""
    monkeypatch.setattr("foundation.storage.lease.RENEW_SECONDS", 0.05)
    source = memory.copy(samples, "bucket/photos")
    stat, held = memory.stat, []

    def start_other(place):
        before = stat(place)
        if str(place) == OUT and not held:
            held.append(lease([]).held())
            held[0].__enter__()
        return before

    monkeypatch.setattr(memory, "stat", start_other)
    with pytest.raises(InputError, match=r"Another build \(process \d+ on .*\) is writing to"):
        build(source, OUT)
    held[0].__exit__(None, None, None)
    assert build(source, OUT).manifest.ledger.kept
    memory.objects["memory://bucket/file"] = (b"", 0)
    with pytest.raises(InputError, match="is a file, not a folder"):
        build(source, "memory://bucket/file")


def test_a_build_that_has_lost_its_lease_says_so(memory, samples, monkeypatch):
    """It deletes nothing of the build that took it over, and fails where that one works."""
    from beam_jobs import run

    source = memory.copy(samples, "bucket/photos")
    other = json.dumps({"process": 7, "host": "elsewhere"}).encode()

    def lose(options, record_type, begun, workspace, *others):
        memory.objects[f"{LEASES}/2.lease"] = (other, 0)
        raise FileNotFoundError(2, "No such file or directory", "unfinished/.0.part")

    with monkeypatch.context() as patch:
        patch.setattr(run, "run_build", lose)
        with pytest.raises(InputError, match=r"has lost .* to another build") as caught:
            build(source, OUT)
    assert "(process 7 on elsewhere)" in str(caught.value)
    assert "run the same command again" in str(caught.value)
    assert names_in(memory, LEASES) == ["2.lease"]
    assert "units.arrow" in names_in(memory, f"{OUT}/{naming.WORK_DIR}")
    assert build(source, OUT).manifest.ledger.kept  # that build was killed, long ago


def test_a_build_that_ends_deletes_nothing_of_the_one_that_took_it_over(memory, samples):
    from beam_jobs.build import locked_output
    from beam_jobs.workspace import Workspace

    workspace = Workspace(storage.Url(OUT), None)
    with locked_output(workspace):
        memory.objects[f"{LEASES}/2.lease"] = (b"{}", 0)
        workspace.remove()
    assert names_in(memory, LEASES) == ["2.lease"]


def test_a_store_that_ignores_conditions_is_named(memory, notes, monkeypatch):
    monkeypatch.setitem(storage.STORAGES, "memory", IgnoringConditions(memory))
    with lease(notes).held():
        pass
    assert "ignores conditional writes" in notes[0]


def test_progress_of_processes_is_summed(memory):
    folder = storage.Url(f"{OUT}/{naming.WORK_DIR}/progress")
    seen = {}
    other = json.dumps({"stage": [5, 40]}).encode()
    memory.objects[f"{folder}/other.json"] = (other, 1)
    follower = Follower(folder, lambda stage, done, total: seen.update({stage: (done, total)}))
    follower.start()
    report(folder, "stage", done=3)
    report(folder, "shard", total=9)
    follower.stop()
    assert seen == {"stage": (8, 40), "shard": (0, 9)}


# Names that sort differently as whole keys and folder by folder, and hidden ones.
NAMES = st.sampled_from(["a", "a.b", "a-b", "b", "ab", ".hidden", "Thumbs.db", "ü", "z z", "0"])
PATHS = st.sets(st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=25)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(paths=PATHS)
def test_objects_are_found_as_files_are(paths, memory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    memory.objects.clear()
    for path in sorted(paths):
        if any(other.startswith(f"{path}/") for other in paths):
            continue  # no folder can have the name of a file
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"x")
    url = memory.copy(folder, "bucket/files")

    def found(root):
        ignored = []
        files = [(item.record_id, folders) for item, folders in find_files([root], ignored.append)]
        return files, sorted(ignored)

    assert found(url) == found(folder)


def test_each_folder_of_files_is_listed_once(memory):
    names = [f"{folder}/{number}" for folder in "abc" for number in range(6)]
    memory.objects = {f"memory://bucket/files/{name}": (b"x", 1) for name in names}
    url = storage.Url("memory://bucket/files")
    assert [item.record_id for item, _ in find_files([url], print)] == names
    # Whether it is a folder and exists, what begins it, its folders, and each of these.
    assert memory.requests == 3 + 1 + 1 + 3


@pytest.mark.parametrize("inside", ["", "deep/er"])
def test_of_a_set_in_a_bucket_only_the_shards_are_a_corpus(inside, memory, repository, tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(repository / "tests/golden/v1/set", folder / inside, dirs_exist_ok=True)
    url = memory.copy(folder, "bucket/corpus")
    local, remote = (
        [item.record_id for item, _ in find_files([root], print)] for root in (folder, url)
    )
    assert remote == local
    assert all("tfrecord" in name for name in local) and local


def test_patterns_in_urls_are_expanded(memory, samples):
    memory.copy(samples, "bucket/photos")
    urls = expand_globs(["memory://bucket/ph*/s*"])
    assert urls == [
        f"memory://bucket/photos/{name}" for name in ("shirt", "shoes", "shorts", "skirt")
    ]
    with pytest.raises(InputError, match="matches no file"):
        expand_globs(["memory://bucket/photos/x*"])
