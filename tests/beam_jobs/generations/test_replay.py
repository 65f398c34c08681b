"""quarantine replay of a set with several generations: as if nothing had been rejected."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from beam_jobs.generations.compact import compact
from beam_jobs.generations.replay import replay_generations
from beam_jobs.moved_sources import located
from beam_jobs.quarantine import export, replay_options
from beam_jobs.run import preprocess
from shard_format import (
    InputError,
    UsageError,
    index_parts,
    load_build,
    load_manifest,
    naming,
    open_split_index,
    verify_set,
)
from shard_format.dropped import read_rejected
from tests.fixtures.damage import files_of

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(8)}
NEW = {f"{'ab'[n % 2]}/new{n}": 100 + n for n in range(4)}


@pytest.fixture
def rejected(write_corpus, begin_set, append_to, tmp_path):
    """Two generations of one folder that has grown; a record of each is rejected."""
    corpus = write_corpus("corpus", OLD)
    (corpus / "a" / "bad-old.jpg").write_bytes(b"no image")
    begin_set(corpus)
    write_corpus("corpus", NEW)
    (corpus / "b" / "bad-new.jpg").write_bytes(b"no image")
    append_to(corpus)
    export(tmp_path / "set", tmp_path / "refused")
    for name, seed in (("a/bad-old.jpg", 500), ("b/bad-new.jpg", 501)):
        good = write_corpus(f"good{seed}", {"x/1": seed}) / "x" / "1.jpg"
        shutil.copy(good, tmp_path / "refused" / "files" / name)
    return tmp_path / "set"


def test_repaired_records_are_in_the_set(rejected, records_of, tmp_path):
    before = records_of()
    manifest = replay_generations(rejected, tmp_path / "refused")
    assert manifest == load_manifest(rejected) and len(manifest.generations) == 2
    assert (manifest.ledger.read, manifest.ledger.kept) == (14, 14)
    assert load_manifest(rejected, 0).ledger.read == 9  # of the folder as it was then
    records = records_of()
    assert records.keys() - before.keys() == {"a/bad-old.jpg", "b/bad-new.jpg"}
    assert {name: records[name] for name in before} == before
    assert verify_set(rejected).damages == []
    assert not rejected.with_name("set.new").exists()
    build = load_build(rejected / "generations/0001")
    assert build["options"]["base"] == str(rejected)
    # Again: the same set.
    assert replay_generations(rejected, tmp_path / "refused").root_hash == manifest.root_hash


def test_a_set_whose_index_is_in_parts_is_replayed(request, tmp_path, monkeypatch):
    monkeypatch.setattr(index_parts, "PART_ROWS", 1)
    root = request.getfixturevalue("rejected")
    before = {split: info.index for split, info in load_manifest(root).splits.items()}
    assert any(before.values())
    manifest = replay_generations(root, tmp_path / "refused")
    assert manifest.ledger.kept == 14 and any(split.index for split in manifest.splits.values())
    ids = [open_split_index(root, manifest, name)["record_id"] for name in manifest.splits]
    names = {name for column in ids for name in column.to_pylist()}
    assert len(names) == 14 and {"a/bad-old.jpg", "b/bad-new.jpg"} <= names
    assert verify_set(root).damages == []


@pytest.mark.proof
def test_repaired_files_are_for_the_generation_that_rejected_them(
    write_corpus, begin_set, append_to, tmp_path
):
    begin_set(write_corpus("old", OLD))
    new = write_corpus("new", NEW)
    (new / "b" / "bad.jpg").write_bytes(b"no image")
    append_to(new)
    good = write_corpus("good", {"b/bad": 700})
    with pytest.raises(InputError, match=r"No file in .* has the path of a record that"):
        replay_generations(tmp_path / "set", write_corpus("others", {"b/other": 701}))
    assert replay_generations(tmp_path / "set", good).ledger.quarantined == 0


def test_ids_with_a_prefix(write_corpus, begin_set, tmp_path):
    """Files were looked up by ids without it, and so none was found."""
    corpus = write_corpus("corpus", OLD)
    (corpus / "a" / "bad.jpg").write_bytes(b"no image")
    begin_set(corpus, id_prefix="x")
    export(tmp_path / "set", tmp_path / "refused")
    good = write_corpus("good", {"b/1": 700}) / "b" / "1.jpg"
    shutil.copy(good, tmp_path / "refused" / "files" / "x" / "a" / "bad.jpg")
    again = replay_options(tmp_path / "set", tmp_path / "refused", (), {})
    begin_set(corpus, "again", id_prefix="x", repaired=again.repaired)
    assert load_manifest(tmp_path / "again").ledger.kept == 9


def test_rows_without_a_file_have_the_prefix_too(write_corpus, begin_set, tmp_path):
    corpus = write_corpus("corpus", OLD)
    rows = ["path,label", *(f"{name}.jpg,{name[0]}" for name in OLD), "a/none.jpg,a"]
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    begin_set(corpus, labels=str(tmp_path / "labels.csv"), id_prefix="x")
    out = tmp_path / "set"
    rejected = [one.record_id for one, _ in read_rejected(out, load_manifest(out))]
    assert rejected == ["x/a/none.jpg"]


@pytest.mark.proof
def test_it_can_be_built_elsewhere(rejected, tmp_path):
    names = files_of(rejected)
    manifest = replay_generations(rejected, changes={"min_side": 5}, out=str(tmp_path / "other"))
    assert files_of(rejected) == names and manifest.config["min_side"] == 5
    assert verify_set(tmp_path / "other").damages == []


def test_a_compacted_set_needs_its_sources(rejected):
    compact(rejected)
    with pytest.raises(UsageError, match="was compacted from 2 builds"):
        replay_options(rejected, None, (), {"seed": 1})


@pytest.mark.proof
def test_the_command(rejected, shardmill, tmp_path):
    done = shardmill("quarantine", "replay", rejected, tmp_path / "refused")
    assert done.returncode == 0, done.stderr
    assert "quarantined 0" in done.stdout
    assert load_manifest(rejected).ledger.kept == 14
    assert not (rejected / naming.WORK_DIR).exists()


@pytest.fixture
def of_two(write_corpus, begin_set, append_to, tmp_path):
    """Sets of the sources `old` and `new`: as one build, as two generations, and compacted."""
    sources = [write_corpus("old", OLD), write_corpus("new", NEW)]
    begin_set(sources, "one")
    for out in ("generations", "compacted"):
        begin_set(sources[0], out)
        append_to(sources[1], out)
    compact(tmp_path / "compacted")
    return tmp_path


@pytest.mark.parametrize("out", ["one", "generations", "compacted"])
def test_a_replay_takes_the_sources_of_all_builds(of_two, out):
    """Those that are not named are where they were, or the replay stops."""

    def replay(*sources: str) -> int:
        place = of_two / out
        if load_manifest(place).generations:
            return replay_generations(place, None, sources, {"min_side": 2}).ledger.read
        options = replay_options(place, None, sources, {"min_side": 2})
        return preprocess(dataclasses.replace(options, overwrite=True)).manifest.ledger.read

    before = files_of(of_two / out)
    (of_two / "there").mkdir()
    shutil.move(of_two / "old", of_two / "there" / "old")
    moved = str(of_two / "there" / "old")
    assert replay(moved) == 12  # and the other where it was
    shutil.move(of_two / "new", of_two / "away")
    before = files_of(of_two / out)
    with pytest.raises(UsageError, match=r"new is neither there nor named by --sources"):
        replay(moved)
    shutil.copytree(of_two / "away", of_two / "new")
    with pytest.raises(UsageError, match="away has the name of none of them"):
        replay(moved, str(of_two / "away"))
    assert files_of(of_two / out) == before
    shutil.rmtree(of_two / "new")
    shutil.move(of_two / "away", of_two / "there" / "new")
    assert replay(str(of_two / "there" / "*")) == 12


def test_sources_with_the_same_name_are_told_apart():
    known = ["/a/x/images", "/a/y/images"]
    assert located(known, ["/b/y/images", "/b/x/images"]) == (["/b/x/images", "/b/y/images"], [])
    assert located(known, ["/b/y/images"])[1] == ["/a/y/images"]
