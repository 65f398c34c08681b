"""Small jobs that use everything, each with the root hash that the local engine gives."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from shard_format import load_manifest, naming, verify

# For one job at a third of this machine's speed, with restarts, or until silence ends it.
_SECONDS = 700


@dataclasses.dataclass(frozen=True)
class Job:
    """A job on one corpus.

    Attributes:
        repository: Where the command runs.
        arguments: Arguments of the command, without --out.
        root_hash: As the local engine gives it.
        units: Number of its units.
        environment: Further variables of the command.
        program: What Python runs.
    """

    repository: Path
    arguments: tuple[str, ...]
    root_hash: str = ""
    units: int = 0
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "cli.main")

    def start(self, out: Path, beam_args: Sequence[str] = (), *more: str) -> subprocess.Popen[str]:
        """Starts the command as a user does, in a process group of its own."""
        command = [sys.executable, *self.program, "preprocess", *self.arguments]
        log = out.with_suffix(".log").open("a+")
        return subprocess.Popen(
            [*command, "--out", str(out), "--no-report", *more, "--", *beam_args],
            cwd=self.repository,
            env={**os.environ, **self.environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, out: Path, beam_args: Sequence[str] = (), *more: str) -> tuple[int, str]:
        """(exit code, what it printed)."""
        return ended(self.start(out, beam_args, *more), out)

    def check(self, out: Path) -> None:
        """Asserts that the set is the one of the local engine, whole, with nothing left over."""
        assert load_manifest(out).root_hash == self.root_hash
        assert verify(out)[1] == []
        assert not (out / naming.WORK_DIR).exists()


def ended(process: subprocess.Popen[str], out: Path) -> tuple[int, str]:
    """(exit code, everything that commands into this output have printed)."""
    try:
        code = process.wait(_SECONDS)
    finally:
        kill_launcher(process)
    return code, printed(out)


def printed(out: Path) -> str:
    """Everything that commands into this output have printed."""
    return out.with_suffix(".log").read_text(errors="replace")


def kill_launcher(process: subprocess.Popen[str]) -> None:
    """SIGKILL to a command and its children, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(reached: Callable[[], object], process: subprocess.Popen[Any], what: str) -> None:
    """Waits for something that a running command does."""
    deadline = time.monotonic() + _SECONDS
    while not reached():
        assert process.poll() is None, f"the command ended before {what}"
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.02)


# The command, which plans the smallest corpus in rounds.
IN_ROUNDS = (
    "-c",
    """
from beam_jobs import pipeline
from beam_jobs.stages.plan.merge_levels import LIMITS, OBJECT_STORE, Merging
pipeline.merging_at = lambda *_: Merging(OBJECT_STORE, LIMITS, 1, ranges=4)
from cli.main import main
main()
""",
)


def planned_files(out: Path) -> int:
    """How many files the planning of a running build has written; in rounds some hundred."""
    return len(list((out / naming.WORK_DIR / "plan").glob("*")))


def staged_units(out: Path) -> int:
    """How many units of a running build are done."""
    return len(list((out / naming.WORK_DIR / "units").glob("*.json")))


@pytest.fixture(scope="session")
def images_job(samples: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The sample images, some of them again at another size; about 40 units."""
    corpus = tmp_path_factory.mktemp("images") / "corpus"
    shutil.copytree(samples, corpus)
    for number, path in enumerate(sorted(corpus.glob("*/*-*-*-*-*.jpg"))[::20]):
        with Image.open(path) as image:
            image.resize((300, 400)).save(path.with_name(f"again{number}.jpg"), quality=70)
    options = ("--resize", "shorter:200", "--dedup", "near", "--unit-size", "150KiB")
    job = Job(repository, ("images", str(corpus), *options, "--num-shards", "4"))
    return with_local_hash(job, tmp_path_factory.mktemp("local-images") / "set")


@pytest.fixture(scope="session")
def text_job(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Questions of the samples in forty files, some of them almost the same; at least 20 units."""
    with (repository / "samples/banking/test.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    (text_column,) = [name for name in rows[0] if name != "category"]
    rows += [{**row, text_column: row[text_column] + " Thanks."} for row in rows[::50]]
    corpus = tmp_path_factory.mktemp("questions") / "corpus"
    corpus.mkdir()
    for number in range(40):
        lines = (json.dumps(row) for row in rows[number::40])
        (corpus / f"{number}.jsonl").write_text("\n".join(lines))
    options = ("--label-column", "category", "--dedup", "near", "--dedup-parts", "lines")
    tokens = ("--train-tokenizer", "bpe:600", "--pack", "64", "--unit-size", "2KiB")
    job = Job(repository, ("text", str(corpus), *options, *tokens, "--num-shards", "4"))
    return with_local_hash(job, tmp_path_factory.mktemp("local-text") / "set")


def slow_job_in(corpus: Path, repository: Path, copies: int = 4) -> Job:
    """The sample images several times, encoded as WebP: seconds of work in about 90 units."""
    for number in range(copies):
        shutil.copytree(repository / "samples" / "clothing", corpus / str(number))
    options = ("--resize", "shorter:400", "--encoding", "webp", "--unit-size", "256KiB")
    labels = ("--label-pattern", "[^/]+/(?P<label>[^/]+)/")
    return Job(repository, ("images", str(corpus), *options, *labels, "--num-shards", "6"))


@pytest.fixture(scope="session")
def slow_job(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job that can be interrupted in the middle."""
    job = slow_job_in(tmp_path_factory.mktemp("slow") / "corpus", repository)
    return with_local_hash(job, tmp_path_factory.mktemp("local-slow") / "set")


@pytest.fixture(params=["images", "text"])
def job(request: pytest.FixtureRequest) -> Job:
    """Each of the two."""
    chosen: Job = request.getfixturevalue(f"{request.param}_job")
    return chosen


_OBJECTS = ("images", "samples/objects/photos", "--resize", "shorter:100", "--unit-size", "16KiB")
SHAPED = {
    "boxes": (*_OBJECTS, "--annotations", "samples/objects/instances.json"),
    "masks": (*_OBJECTS, "--annotations", "samples/objects/masks"),
    "captions": (*_OBJECTS, "--labels", "samples/objects/captions.jsonl", "--no-labels")
    + ("--caption-column", "caption", "--dedup", "near", "--near-by", "both"),
    "episodes": ("records", "--from", "samples.records.robot:episodes", "--no-labels"),
    "windows": ("records", "--from", "samples.records.sensors:days"),
}
"""Arguments of jobs on records of other shapes: objects, masks, captions, and those of programs."""


@pytest.fixture(scope="session", params=SHAPED)
def shaped_job(
    request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Job:
    """Each of SHAPED."""
    job = Job(repository, (*SHAPED[request.param], "--num-shards", "3"))
    return with_local_hash(job, tmp_path_factory.mktemp("local-shaped") / "set")


def with_local_hash(job: Job, out: Path) -> Job:
    """The job with the root hash and the number of units that the local engine gives."""
    code, said = job.run(out)
    assert code == 0, said
    units = json.loads((out / naming.BUILD).read_text())["units"]
    return dataclasses.replace(job, root_hash=load_manifest(out).root_hash, units=units)
