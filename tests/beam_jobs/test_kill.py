"""Kill anywhere, run the same command again: the same set, work kept, nothing stray."""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_jobs import ImageOptions, preprocess
from beam_jobs.progress import _end as end_reports
from beam_jobs.stages import list as list_stage
from beam_jobs.stages.commit import quarantine
from beam_jobs.stages.plan import merge_levels
from foundation import storage
from foundation.storage import Url
from shard_format import duplicates, index_parts, load_manifest, naming, verify
from tests.fixtures.killed_commands import all_parts, finished_parts

COMMAND = [sys.executable, "-m", "cli.main", "preprocess"]
COMMON = ["--num-shards", "6", "--workers", "2", "--json"]
IMAGES = ["--unit-size", "100KiB", "--resize", "shorter:200"]
# Everything that planning and sharding can do, by workers that are processes.
DOCUMENTS = [
    *("--unit-size", "2KiB", "--label-column", "category", "--dedup", "near"),
    *("--dedup-parts", "lines", "--train-tokenizer", "bpe:600", "--pack", "64"),
    *("--worker-type", "processes"),
]
_OBJECTS = "samples/objects"
OBJECTS = [
    *("images", f"{_OBJECTS}/photos", "--annotations", f"{_OBJECTS}/instances.json"),
    *("--resize", "shorter:100", "--unit-size", "6KiB", "--stratify"),
]
CAPTIONS = [
    *("images", f"{_OBJECTS}/photos", "--labels", f"{_OBJECTS}/captions.jsonl", "--no-labels"),
    *("--caption-column", "caption", "--clean-captions", "length:min_words=3"),
    *("--dedup", "near", "--near-by", "both", "--unit-size", "6KiB"),
]
_PROGRAM = "tests.beam_jobs.records.programs:episodes"
RECORDS = ["records", "--from", _PROGRAM, "--no-labels"]
# (kind, number of kills) -> one test for each kill
_PAGES = (naming.REPORT, naming.CARD)  # the stages alone make none
COUNTS = {"images": 10, "text": 6, "objects": 5, "captions": 5, "records": 5, "tfds": 5}
KILLS = [(kind, kill, kills) for kind, kills in COUNTS.items() for kill in range(kills)]
# Of these, late in a run; the others are proofs, and every rename has its crash below.
ALWAYS = {("images", 6)}


class _Job:
    """A command that can be killed."""

    def __init__(self, arguments: list[str], repository: Path) -> None:
        self._arguments = arguments
        self._repository = repository

    def start(self, out: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, *self._arguments, "--out", str(out), *COMMON],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=self._repository,
        )


def _finish(process: subprocess.Popen[bytes]) -> dict[str, object]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


def _files(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*"))


@pytest.fixture(scope="module")
def jobs(samples, repository, tmp_path_factory):
    """By kind; images of the samples, and its questions in forty files of JSON Lines.

    A set of twenty shards is one that TFDS reads.
    """
    prepared = tmp_path_factory.mktemp("prepared") / "set"
    preprocess(ImageOptions((str(samples),), str(prepared), num_shards=20, no_report=True))
    with (repository / "samples/banking/test.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    questions = tmp_path_factory.mktemp("questions")
    for number in range(40):
        lines = (json.dumps(row) for row in rows[number::40])
        (questions / f"{number}.jsonl").write_text("\n".join(lines))
    return {
        "images": _Job(["images", str(samples), *IMAGES], repository),
        "text": _Job(["text", str(questions), *DOCUMENTS], repository),
        "objects": _Job(OBJECTS, repository),
        "captions": _Job(CAPTIONS, repository),
        "records": _Job(RECORDS, repository),
        "tfds": _Job(["records", "--from", f"tfds:{prepared}"], repository),
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, jobs):
    """(summary, files, number of units and shards) of a kind."""

    @functools.cache
    def built(kind):
        out = tmp_path_factory.mktemp("whole") / kind
        summary = _finish(jobs[kind].start(out))
        return summary, _files(out), all_parts(out)

    return built


@pytest.mark.parametrize(
    ("what", "kill", "kills"),
    [pytest.param(*k, marks=() if k[:2] in ALWAYS else pytest.mark.proof) for k in KILLS],
)
def test_sigkill_when_some_units_and_shards_are_finished(
    what, kill, kills, uninterrupted, jobs, tmp_path
):
    summary, files, parts = uninterrupted(what)
    job, out = jobs[what], tmp_path / "set"
    process = job.start(out)
    # Spread over the whole of the run, each at a random place of its share.
    wanted = int((kill + random.Random(kill).random()) / kills * parts)
    while finished_parts(out) < wanted and process.poll() is None:
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    units = len(list((out / naming.WORK_DIR / "units").glob("*.json")))
    finished = (out / naming.MANIFEST).exists()

    again = _finish(job.start(out))
    assert again["root_hash"] == summary["root_hash"]
    assert _files(out) == files
    assert verify(out)[1] == []
    build = json.loads((out / naming.BUILD).read_text())
    if not finished:
        assert build["units_reused"] == units
    assert build["units"] >= 12


class _Killed(BaseException):
    """Not an Exception: no handler of ours may catch it, as none can catch SIGKILL."""


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("image", 5),
        pytest.param("image", 1, marks=pytest.mark.proof),
        pytest.param("text", 1, marks=pytest.mark.proof),
    ],
    indirect=["kind"],
)
def test_a_crash_before_any_rename(kind, build, tmp_path, monkeypatch, every):
    """Every rename is a moment at which a file has no name yet: stops at each of them in turn.

    Runs stage by stage without Beam, so that hundreds of crashes take seconds.
    """
    corpus = kind.make(8)
    one = (corpus / "class1" / kind.file("001")).read_bytes()
    (corpus / "class0" / kind.file("broken")).write_bytes(kind.damaged(one))
    (corpus / "class1" / kind.file("copy")).write_bytes(one)
    options = {"unit_size": "2KiB", "num_shards": 2}
    expected = build(corpus, "whole", **options).manifest.root_hash
    files = _files(tmp_path / "whole")

    crashes = 0
    while True:
        out = tmp_path / f"crash{crashes}"
        with monkeypatch.context() as patch:
            _crash_at(patch, lambda call, final, stop=crashes: call == stop)
            try:
                _run_stages(kind, corpus, out, options)
            except _Killed:
                pass
            else:
                break
        # Interrupted, then run again; about every eighth, and with a manifest, the ordinary way.
        if crashes % 8 == 0 or (out / naming.MANIFEST).exists():
            build(corpus, out, **options)
        else:
            _run_stages(kind, corpus, out, options).remove()
        assert load_manifest(out).root_hash == expected
        assert _files(out) == files
        crashes += every
    assert crashes > 50


def _crash_at(patch, stops: Callable[[int, Path], bool]) -> None:
    """Dies instead of a rename, by its number and target; a dead process deletes nothing."""
    calls, dead, rename, unlink = 0, False, os.replace, os.unlink

    def replace(temporary, final):
        nonlocal calls, dead
        if stops(calls, Path(final)):
            dead = True
            raise _Killed
        calls += 1
        rename(temporary, final)

    def delete(path, **folder):
        if dead:
            raise _Killed
        unlink(path, **folder)

    patch.setattr(os, "replace", replace)
    patch.setattr(os, "unlink", delete)


def _run_stages(kind, corpus: Path, out: Path | Url, options: dict[str, object]):
    """What the pipeline does, in this thread; the workspace."""
    from beam_jobs.job_context import JobContext
    from beam_jobs.stages.commit import commit
    from beam_jobs.stages.commit.index import write_index
    from beam_jobs.stages.commit.shard_set import WrittenParts
    from beam_jobs.stages.list import list_corpus, resolve_options
    from beam_jobs.stages.plan import plan_shards
    from beam_jobs.stages.shard import write_shard
    from beam_jobs.stages.stage import stage_unit
    from beam_jobs.staging.units import read_units

    job = JobContext.create(resolve_options(kind.options(corpus, out, **options)))
    job.workspace.create()
    listing = list_corpus(job)
    summaries = [stage_unit(unit, job) for unit in read_units(job.workspace)]
    results = [write_shard(spec, job).done(spec) for spec in plan_shards(summaries, job)]
    commit(summaries, WrittenParts(write_index(results, job)), listing, time.time(), job)
    return job.workspace


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("image", 37),
        pytest.param("image", 4, marks=pytest.mark.proof),
        pytest.param("text", 4, marks=pytest.mark.proof),
    ],
    indirect=["kind"],
)
def test_a_crash_before_any_rename_of_a_large_job(kind, build, tmp_path, monkeypatch, every):
    """One that is planned, merged and committed in ranges: all of its steps."""
    corpus = kind.make(12)
    one = (corpus / "class1" / kind.file("001")).read_bytes()
    for number in range(4):
        (corpus / "class0" / kind.file(f"broken{number}")).write_bytes(kind.damaged(one))
    for number in range(5):
        (corpus / "class1" / kind.file(f"copy{number}")).write_bytes(one)
    options = {"unit_size": "2KiB", "num_shards": 4}
    monkeypatch.setattr(index_parts, "PART_ROWS", 5)
    monkeypatch.setattr(duplicates, "PART_ROWS", 2)
    monkeypatch.setattr(quarantine, "_PART_BYTES", 1 << 10)
    monkeypatch.setattr(quarantine, "_GROUP_BYTES", 1 << 9)
    expected = build(corpus, "whole", **options).manifest.root_hash
    files = _files(tmp_path / "whole")
    parts = {"index/train-00001.arrow", "quarantine/part-00001.parquet"}
    assert parts | {"duplicates/part-00001.parquet"} <= set(files)
    monkeypatch.setattr(merge_levels, "_LOCAL_BYTES", 1)
    monkeypatch.setattr(merge_levels, "RANGE_BYTES", 1 << 12)

    crashes, is_over = 0, False
    while not is_over:
        out = tmp_path / f"crash{crashes}"
        with monkeypatch.context() as patch:
            _crash_at(patch, lambda call, final, stop=crashes: call == stop)
            with contextlib.suppress(_Killed):
                _run_steps(kind, corpus, out, options)
                is_over = True
        if not is_over:
            _run_steps(kind, corpus, out, options)
        assert load_manifest(out).root_hash == expected
        assert [name for name in _files(out) if name not in _PAGES] == files
        shutil.rmtree(out)
        crashes += every
    assert crashes > 200


def _run_steps(kind, corpus: Path, out: Path, options: dict[str, object]) -> None:
    """The steps of the pipeline, one after the other in this thread."""
    from beam_jobs.build import begin, open_job
    from beam_jobs.pipeline import BUILDS, merging_of, steps
    from beam_jobs.work import count_nothing

    job = open_job(kind.options(corpus, out, **options))
    build = begin(job)
    made = {BUILDS: [build]}
    for step in steps(job, merging_of(job, build), launched=False):
        step.work.setup(count_nothing)
        whole = [made[name] for name in step.whole]
        made[step.name] = [
            result for element in made[step.each] for result in step.work.process(element, *whole)
        ]
        step.work.finish()
    assert {"WriteRecipes", "Merge1", "ReadRejects", "WriteParts"} <= made.keys()


OPERATIONS = ("replace", "unlink", "rmdir", "mkdir", "fsync", "link")


@pytest.mark.proof
def test_a_crash_before_any_operation_on_files(kind, build, tmp_path):
    """Also those that make folders, flush, and delete."""
    corpus, options = kind.make(8), {"unit_size": "2KiB", "num_shards": 2}
    expected = build(corpus, "whole", **options).manifest.root_hash
    files, crashes, is_over = _files(tmp_path / "whole"), 0, False
    while not is_over:
        out = tmp_path / "killed"
        with pytest.MonkeyPatch.context() as patch:
            clock = _Clock(crashes)
            for name in OPERATIONS:
                patch.setattr(os, name, clock.counted(getattr(os, name)))
            is_over = _survives(kind, corpus, out, options)
        build(corpus, out, **options)
        assert load_manifest(out).root_hash == expected
        assert _files(out) == files
        shutil.rmtree(out)
        crashes += 1
    assert crashes > 100


# Few in any test run: a build into a bucket takes a second each.
@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.proof)])
def test_a_crash_before_any_operation_on_objects(kind, memory, tmp_path, every):
    corpus, options = kind.make(8), {"unit_size": "2KiB", "num_shards": 2}
    whole, out = Url("memory://bucket/whole"), Url("memory://bucket/set")
    workspace = _run_stages(kind, corpus, whole, options)
    end_reports(workspace.progress)
    workspace.remove()
    expected, objects = load_manifest(whole).root_hash, _objects(memory, whole)
    crashes, is_over = 0, False
    progress = out / naming.WORK_DIR / "progress"
    while not is_over:
        memory.objects = _Objects(_Clock(crashes), memory.objects)
        is_over = _survives(kind, corpus, out, options)
        memory.objects = dict(memory.objects)
        end_reports(progress)  # a dead process has no thread that reports
        if storage.exists(out / naming.MANIFEST):
            preprocess(kind.options(corpus, out, **options))
        else:
            workspace = _run_stages(kind, corpus, out, options)
            end_reports(progress)
            workspace.remove()
        assert load_manifest(out).root_hash == expected
        assert _objects(memory, out) == objects
        memory.delete_tree(out)
        crashes += every
    assert crashes > 50


class _Clock:
    """Counts operations; that of a given number does not happen, nor does any behind it."""

    def __init__(self, last: int) -> None:
        self._left = last

    def tick(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Killed

    def counted(self, operation):
        def call(*arguments, **named):
            self.tick()
            return operation(*arguments, **named)

        return call


class _Objects(dict):
    """Objects of a store whose client dies."""

    def __init__(self, clock, objects):
        super().__init__(objects)
        self._clock = clock

    def __setitem__(self, key, value):
        self._clock.tick()
        super().__setitem__(key, value)

    def pop(self, *arguments):
        self._clock.tick()
        return super().pop(*arguments)


def _survives(kind, corpus, out, options) -> bool:
    try:
        _run_stages(kind, corpus, out, options).remove()
    except _Killed:
        return False
    return True


def _objects(memory, out) -> dict[str, int]:
    """The size of every object of a set; of the times of the build only that they are there."""
    return {
        name: 0 if name == naming.BUILD else stat.size
        for name, stat in memory.list_tree(out)
        if name not in _PAGES
    }


def test_other_options_after_a_kill_leave_nothing_behind(kind, build, tmp_path, monkeypatch):
    corpus, out = kind.make(14), tmp_path / "set"
    with monkeypatch.context() as patch:
        _crash_at(patch, lambda call, final: final.name == naming.MANIFEST)
        with pytest.raises(_Killed):
            _run_stages(kind, corpus, out, {"num_shards": 5, "split": "train=0.5,odd=0.5"})
    report = build(corpus, out, num_shards=2)
    assert verify(out)[1] == []
    assert not list(out.glob("*of-00005")) and not (out / "index" / "odd.arrow").exists()
    assert report.manifest.root_hash == build(corpus, "fresh", num_shards=2).manifest.root_hash


def test_the_same_command_on_a_finished_set_does_nothing(kind, build, tmp_path):
    corpus = kind.make()
    first = build(corpus)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "set").iterdir()}
    second = build(corpus)
    assert second.already_built and not first.already_built
    assert second.manifest == first.manifest
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "set").iterdir()} == before


@pytest.mark.parametrize(("size", "records"), [("8KiB", 4096), ("1MiB", 5)])
def test_staged_units_serve_the_next_build(kind, build, tmp_path, monkeypatch, size, records):
    """A file is added: only its unit is staged again, whether bytes or records limit units."""
    monkeypatch.setattr(list_stage, "_UNIT_RECORDS", records)
    corpus = kind.make(60)
    options = {"staging": str(tmp_path / "staging"), "unit_size": size}
    first = build(corpus, "one", **options)
    one = (corpus / "class1" / kind.file("001")).read_bytes()
    (corpus / "class1" / kind.file("new")).write_bytes(one + b" ")
    second = build(corpus, "two", **options)
    assert first.build["units_reused"] == 0
    # The unit it falls in; two, if its hash also cuts that unit.
    assert second.build["units"] - second.build["units_reused"] <= 2
    assert second.build["units_reused"] >= 5
    fresh = build(corpus, "fresh").manifest.root_hash
    assert second.manifest.root_hash == fresh


def test_a_staged_unit_that_was_cut_is_staged_again(kind, build, tmp_path):
    corpus, staging = kind.make(), tmp_path / "staging"
    expected = build(corpus, "one", staging=str(staging)).manifest.root_hash
    for file in (staging / "units").glob("*.tfrecord"):
        os.truncate(file, file.stat().st_size - 1)
    report = build(corpus, "two", staging=str(staging))
    assert report.build["units_reused"] == 0
    assert report.manifest.root_hash == expected


def test_two_builds_into_one_folder_are_refused(make_images, build, tmp_path):
    from beam_jobs.workspace import Workspace
    from shard_format import InputError

    corpus = make_images()
    with Workspace(tmp_path / "set", None).lock():
        with pytest.raises(InputError, match="Another build is writing to"):
            build(corpus)
    assert build(corpus).manifest.ledger.kept == 12
