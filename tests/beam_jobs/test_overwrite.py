"""Another set in the place of one: refused with what differs, or replaced without a gap."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from beam_jobs import ImageOptions, preprocess, replacement
from shard_format import InputError, file_sha256, load_manifest, naming
from shard_format.verification import verify
from tests.fixtures.killed_commands import all_parts, finished_parts


def files(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*"))


def neighbours(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir() if path.name.startswith(out.name))


@pytest.mark.parametrize(
    "kind", ["image", pytest.param("text", marks=pytest.mark.proof)], indirect=True
)
def test_what_differs_is_said(kind, build, tmp_path):
    corpus = kind.make(12)
    build(corpus, "set", num_shards=2, seed=1)
    before = files(tmp_path / "set")
    with pytest.raises(InputError) as refused:
        build(corpus, "set", num_shards=2, split="train=0.5,test=0.5")
    assert str(refused.value).splitlines()[1:] == [
        "  --split: train=0.9,test=0.1 then, train=0.5,test=0.5 now",
        "  --seed: 1 then, 0 now",
        "Pass --overwrite to replace it, or choose another --out.",
    ]
    (corpus / kind.file("class0/new")).write_bytes(b"some more words")
    with pytest.raises(InputError, match=r"corpus: 12 files of .* then, 13 files of .* now"):
        build(corpus, "set", num_shards=2, seed=1)
    (corpus / kind.file("class0/new")).unlink()
    os.utime(next((corpus / "class0").iterdir()), (1, 1))
    with pytest.raises(InputError, match=r"12 files of .*, with other names or modification times"):
        build(corpus, "set", num_shards=2, seed=1)
    other = shutil.copytree(corpus, tmp_path / "corpus2")
    (other / kind.file("class0/new")).write_bytes(b"some more words")
    with pytest.raises(InputError, match=r"corpus2: 13 files of .*, not a source then"):
        build(other, "set", num_shards=2, seed=1)
    assert files(tmp_path / "set") == before


@pytest.fixture
def flat(make_images, tmp_path):
    """12 images in one folder, whose names have two classes: 0a.jpg, 1b.jpg, 2a.jpg."""
    folder = tmp_path / "flat"
    folder.mkdir()
    for number, path in enumerate(sorted(make_images().rglob("*.jpg"))):
        path.rename(folder / f"{number}{'ab'[number % 2]}.jpg")
    return folder


def test_labels_alone_do_not_make_other_files(flat, build, tmp_path):
    staging = str(tmp_path / "staging")
    build(flat, label_pattern=r"(?P<label>[ab])\.", staging=staging)
    with pytest.raises(InputError) as refused:
        build(flat, label_pattern=r"^(?P<label>\d)")
    assert str(refused.value).splitlines()[1:] == [
        r"  --label-pattern: (?P<label>[ab])\. then, ^(?P<label>\d) now",
        "Pass --overwrite to replace it, or choose another --out.",
    ]
    notes = []
    job = {"label_pattern": r"^(?P<label>\d)", "staging": staging, "overwrite": True}
    out = str(tmp_path / "set")
    preprocess(ImageOptions((str(flat),), out, resize="shorter:32", **job), on_note=notes.append)
    assert any("12 files with other labels" in note for note in notes)
    assert not any("files changed" in note for note in notes)


def test_other_rows_of_a_table_are_no_other_files(flat, build, tmp_path):
    table = tmp_path / "labels.csv"
    rows = [f"{path.name},{path.name[-5]}" for path in sorted(flat.iterdir())]
    table.write_text("\n".join(["path,label", *rows, "none.jpg,a"]))
    build(flat, labels=str(table))
    table.write_text("\n".join(["path,label", *rows[1:], f"{rows[0][:-1]}c"]))
    with pytest.raises(InputError, match=r": 12 files of .*, with other labels, groups or splits"):
        build(flat, labels=str(table))


def test_a_set_of_before_build_json_had_inputs(make_images, build, tmp_path):
    corpus = make_images()
    build(corpus)
    path = tmp_path / "set" / naming.BUILD
    saved = json.loads(path.read_text())
    del saved["inputs"], saved["options"]["overwrite"]
    path.write_text(json.dumps(saved))
    with pytest.raises(InputError, match="--seed: 0 then, 1 now"):
        build(corpus, seed=1)
    (corpus / "class0" / "new.png").write_bytes(b"")
    with pytest.raises(InputError, match="files with other names, sizes or modification times"):
        build(corpus)


def test_overwrite_replaces_the_set_and_nothing_else(make_images, build, tmp_path):
    corpus, out = make_images(), tmp_path / "set"
    first = build(corpus, "set", num_shards=2, overwrite=True)  # there is none yet
    again = build(corpus, "set", num_shards=2, overwrite=True)
    assert again.already_built and again.manifest == first.manifest
    second = build(corpus, "set", num_shards=3, overwrite=True)
    assert not second.already_built and second.out == out
    assert second.manifest == build(corpus, "fresh", num_shards=3).manifest
    assert files(out) == files(tmp_path / "fresh") and neighbours(out) == ["set"]
    assert json.loads((out / naming.BUILD).read_text())["options"]["out"] == str(out)
    assert build(corpus, "set", num_shards=3).already_built
    (out / "run").mkdir()
    with pytest.raises(InputError, match=r"contains 'run', not of the set.* Move it"):
        build(corpus, "set", num_shards=2, overwrite=True)
    (out / "run").rmdir()
    link = tmp_path / "link"
    link.symlink_to(out)
    build(corpus, link, num_shards=2, overwrite=True)
    assert link.is_symlink() and load_manifest(out) == first.manifest


def test_a_left_over_build_of_other_options_leaves_no_file(make_images, build, tmp_path):
    """One that was killed before it got the name of the old set, and never will get it."""
    corpus, out = make_images(), tmp_path / "set"
    build(corpus, "set")
    build(corpus, "fresh", num_shards=2, no_report=True, no_fingerprints=True)
    others = {"name": "other", "split": "fit=0.5,held=0.5", "dedup": "near", "duplicates": "drop"}
    build(corpus, "set.new", seed=7, **others)
    notes = tmp_path / "set.new" / "notes.txt"
    notes.write_text("of somebody")
    with pytest.raises(InputError, match=r"set\.new contains 'notes.txt', not of the set"):
        build(corpus, num_shards=2, no_report=True, no_fingerprints=True, overwrite=True)
    assert notes.exists() and verify(tmp_path / "set.new")[1] != []
    notes.unlink()
    assert verify(tmp_path / "set.new")[1] == []
    build(corpus, num_shards=2, no_report=True, no_fingerprints=True, overwrite=True)
    assert files(out) == files(tmp_path / "fresh") and neighbours(out) == ["set"]
    assert verify(out)[1] == []


def test_a_build_that_fails_leaves_the_old_set(make_images, build, tmp_path):
    corpus, out = make_images(), tmp_path / "set"
    build(corpus)
    before = files(out)
    with pytest.raises(InputError, match=r"no such file"):
        build(corpus, labels=str(tmp_path / "none.csv"), overwrite=True)
    (corpus / "class0" / "broken.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"is rejected as"):
        build(corpus, on_bad="fail", overwrite=True)
    assert files(out) == before and verify(out)[1] == []
    with replacement.FolderReplacement(out).locked():
        with pytest.raises(InputError, match="Another build is writing to"):
            build(corpus, overwrite=True)


class _Killed(BaseException):
    """Not an Exception: no handler of ours may catch it, as none can catch SIGKILL."""


@pytest.mark.parametrize("exchanges", [True, pytest.param(False, marks=pytest.mark.proof)])
def test_a_crash_before_any_change_of_the_end(exchanges, make_images, build, tmp_path, monkeypatch):
    """Where names can be exchanged, the directory is one of both sets whole at each moment."""
    corpus, out = make_images(), tmp_path / "set"
    old, new = build(corpus, "old").manifest, build(corpus, "fresh", seed=1).manifest
    crashes, over = 0, False
    while not over:
        shutil.copytree(tmp_path / "old", out)
        built = shutil.copytree(tmp_path / "fresh", tmp_path / "set.new") / naming.WORK_DIR
        (built / "unfinished").mkdir(parents=True)
        with monkeypatch.context() as patch:
            if not exchanges:
                patch.setattr(replacement, "_exchange", lambda one, other: False)
            _crash_at(patch, crashes)
            try:
                with replacement.FolderReplacement(out).locked():
                    replacement.FolderReplacement(out).finish()
                over = True
            except _Killed:
                crashes += 1
        if exchanges:
            assert load_manifest(out) in (old, new) and verify(out)[1] == []
        assert build(corpus, seed=1, overwrite=True).manifest == new
        assert files(out) == files(tmp_path / "fresh") and neighbours(out) == ["set"]
        shutil.rmtree(out)
    assert crashes > 10


def _crash_at(patch, stop: int) -> None:
    """Dies in place of a change on disk, by its number; nothing is changed after it."""
    calls = 0

    def counting(function):
        def call(*arguments, **options):
            nonlocal calls
            if calls >= stop:
                raise _Killed
            calls += 1
            return function(*arguments, **options)

        return call

    patch.setattr(replacement, "_exchange", counting(replacement._exchange))
    for name in ("rename", "unlink", "touch"):
        patch.setattr(Path, name, counting(getattr(Path, name)))
    for name in ("unlink", "rmdir", "replace"):  # what rmtree and `storage.create` call
        patch.setattr(os, name, counting(getattr(os, name)))


SIZES = ("shorter:64", "shorter:80")


@pytest.fixture(scope="module")
def job(tmp_path_factory, samples, repository):
    """(starts a build into a directory, the folder of two sets of other sizes, its options)."""
    folder = tmp_path_factory.mktemp("overwrite")
    for name in ("hat", "shorts"):
        shutil.copytree(samples / name, folder / "corpus" / name)
    options = ["--num-shards", "4", "--unit-size", "200KiB", "--no-report", "--workers", "2"]
    for size in SIZES:
        given = {"num_shards": 4, "unit_size": "200KiB", "no_report": True, "resize": size}
        preprocess(ImageOptions(folder / "corpus", folder / size, **given))

    def start(out: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "cli.main", "preprocess", "images"),
                *(str(folder / "corpus"), "--json", "--out", str(out), "--overwrite"),
                *("--resize", SIZES[1], *options),
            ],
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd=repository,
        )

    return start, folder


def _finish(process: subprocess.Popen[bytes]) -> str:
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])["root_hash"]


def test_a_reader_finds_a_whole_set_when_the_job_is_killed_at_its_end(job, tmp_path):
    def wait(out: Path, process: subprocess.Popen[bytes]) -> None:
        while not (out.with_name("set.new") / naming.MANIFEST).exists() and process.poll() is None:
            time.sleep(0.001)

    _check_killed(job, tmp_path / "set", wait)


@pytest.mark.proof
@pytest.mark.parametrize("kill", range(12))
def test_a_reader_finds_a_whole_set_whenever_the_job_is_killed(kill, job, tmp_path):
    parts = int((kill + random.Random(kill).random()) / 12 * all_parts(job[1] / SIZES[1]))

    def wait(out: Path, process: subprocess.Popen[bytes]) -> None:
        while finished_parts(out.with_name("set.new")) < parts and process.poll() is None:
            time.sleep(0.001)

    _check_killed(job, tmp_path / "set", wait)


def _check_killed(job, out: Path, wait) -> None:
    start, folder = job
    hashes = [load_manifest(folder / size).root_hash for size in SIZES]
    shutil.copytree(folder / SIZES[0], out)
    reader = _Reader(out)
    with reader.reading():
        process = start(out)
        wait(out, process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert _finish(start(out)) == hashes[1]
    assert reader.problems == [] and reader.found <= set(hashes) and reader.looks > 10
    assert files(out) == files(folder / SIZES[1]) and neighbours(out) == ["set"]


class _Reader:
    """Reads all files of a set again and again, and compares them with its manifest."""

    def __init__(self, out: Path) -> None:
        self.problems: list[str] = []
        self.found: set[str] = set()
        self.looks = 0
        self._out = out
        self._over = threading.Event()

    @contextlib.contextmanager
    def reading(self):
        thread = threading.Thread(target=self._read)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _read(self) -> None:
        while not self._over.wait(0.02):
            try:
                self._look()
            except Exception as error:  # a test that fails shows it
                self.problems.append(repr(error))
            self.looks += 1

    def _look(self) -> None:
        manifest = load_manifest(self._out)
        shas = {s.file: s.sha256 for split in manifest.splits.values() for s in split.shards}
        shas |= {name: info["sha256"] for name, info in manifest.files.items()}
        differs = []
        for name, sha in shas.items():
            try:
                differs += [name] if file_sha256(self._out / name) != sha else []
            except FileNotFoundError:
                differs.append(name)
        # A reader that opened the old set while it was replaced has to open it again.
        if differs and load_manifest(self._out) == manifest:
            raise AssertionError(f"{differs} are not of the set")
        if not differs:
            self.found.add(manifest.root_hash)
