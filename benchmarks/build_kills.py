"""SIGKILL of `shardmill preprocess`: `python -m benchmarks.build_kills [--kills 200]`.

The whole process group, at that many seeded moments. A quarter is anywhere in a build of images, a
quarter anywhere in one of texts (worker processes, near duplicates, a trained tokenizer, packing),
a quarter while one of images writes shards and commits, and a quarter is in builds into a bucket on
an S3 server, every second of these while it writes shards and commits. Then the same command
completes the build, and its root hash and the names and sizes of its files are compared with those
of a build that was not killed; every unit that was done must be found done. Needs 'make engines'
for the server.
"""

from __future__ import annotations

import collections
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import HERE, parser, write
from shard_format import naming
from tests.servers.versitygw import versitygw

_SAMPLES = HERE.parent / "samples"
_TIMED = (naming.BUILD, "report.html")  # files whose content has times in it
_COMMON = ("--workers", "2", "--num-shards", "24")
_IMAGES = ("images", _SAMPLES / "clothing", "--resize", "shorter:200", "--unit-size", "100KiB")
_TEXTS = (
    *("--label-column", "category", "--unit-size", "2KiB", "--dedup", "near"),
    *("--dedup-parts", "lines", "--train-tokenizer", "bpe:600", "--pack", "64"),
)
_PROCESSES = ("--worker-type", "processes")


class Job(NamedTuple):
    """A command and where its output is.

    Attributes:
        name: Name in the results.
        arguments: Arguments of `shardmill preprocess` in front of --out.
        last: Arguments behind it.
        folder: Folder of the sets on the local disk; of a bucket, where its server has the objects.
        place: Beginning of --out.
        environment: Further environment variables of the process.
    """

    name: str
    arguments: tuple[object, ...]
    last: tuple[str, ...]
    folder: Path
    place: str
    environment: Mapping[str, str]

    def start(self, out: str) -> subprocess.Popen[bytes]:
        """A build as a user starts it, in a process group of its own."""
        command = ["preprocess", *self.arguments, "--out", f"{self.place}/{out}", *_COMMON]
        command += ["--json", *self.last]
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **self.environment},
        )

    def work(self, out: str) -> Path:
        """The folder of a build that is under way."""
        return self.folder / out / naming.WORK_DIR

    def files(self, out: str) -> dict[str, int]:
        """The size of every file by its name; 0 where it has times in it."""
        root = self.folder / out
        return {
            path.relative_to(root).as_posix(): 0 if path.name in _TIMED else path.stat().st_size
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


class Whole(NamedTuple):
    """A build that was not killed.

    Attributes:
        root_hash: Root hash of its set.
        files: Result of `Job.files`.
        seconds: Time from the first trace on disk to the end.
        shard_seconds: Time from the first shard to the end.
    """

    root_hash: str
    files: dict[str, int]
    seconds: float
    shard_seconds: float


def main() -> None:
    """Kills, prints a line for each, writes the results."""
    options = parser("build_kills", __doc__, turns=False)
    options.add_argument("--kills", type=int, default=200)
    arguments = options.parse_args()
    work = arguments.work / "build-kills"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with versitygw(work / "server") as server:
        bucket = work / "server" / "buckets" / "shards"
        local = {name: work / name for name in ("images", "texts")}
        images = Job("images", _IMAGES, (), local["images"], str(local["images"]), {})
        documents = ("text", _questions(work), *_TEXTS)
        texts = Job("texts", documents, _PROCESSES, local["texts"], str(local["texts"]), {})
        remote = Job("bucket", _IMAGES, (), bucket, server.bucket, server.environment)
        whole = {job.name: _uninterrupted(job) for job in (images, texts, remote)}
        results: dict[str, Any] = {
            "seconds": {name: round(one.seconds, 1) for name, one in whole.items()},
            "kills": [],
        }
        for number in range(arguments.kills):
            job = (images, texts, images, remote)[number % 4]
            is_sharding = number % 8 in (2, 6, 7)
            kill = _killed(job, whole[job.name], number, arguments.kills, is_sharding)
            results["kills"].append(kill)
            print(kill, flush=True)
    stages = collections.Counter(f"{one['job']} {one['stage']}" for one in results["kills"])
    results["by_stage"] = dict(sorted(stages.items()))
    print(dict(stages))
    write("build_kills", results)


def _questions(work: Path) -> Path:
    """The sample texts in forty files."""
    with (_SAMPLES / "banking" / "test.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    folder = work / "questions"
    folder.mkdir()
    for number in range(40):
        lines = (json.dumps(row) for row in rows[number::40])
        (folder / f"{number}.jsonl").write_text("\n".join(lines))
    return folder


def _uninterrupted(job: Job) -> Whole:
    process = job.start("whole")
    _await(job.work("whole"), process)
    begun = time.monotonic()
    _await(job.work("whole") / "began-shard.json", process)
    sharded = time.monotonic()
    root_hash = _finished(process)["root_hash"]
    end = time.monotonic()
    return Whole(root_hash, job.files("whole"), end - begun, end - sharded)


def _killed(job: Job, whole: Whole, number: int, kills: int, is_sharding: bool) -> dict[str, Any]:
    """Kills a build, completes it, and says what was there of it."""
    out = f"{job.name}-{number}"
    moment = (number + random.Random(number).random()) / kills
    process = job.start(out)
    _await(job.work(out) / "began-shard.json" if is_sharding else job.work(out), process)
    # A little less than all of it: some builds are faster than the one that was measured.
    time.sleep(0.9 * moment * (whole.shard_seconds if is_sharding else whole.seconds))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    stage = _stage(job, out, sum(".tfrecord-" in name for name in whole.files))
    done = len(list((job.work(out) / "units").glob("*.json")))
    begun = time.monotonic()
    summary = _finished(job.start(out))
    seconds = time.monotonic() - begun
    build = json.loads((job.folder / out / naming.BUILD).read_text())
    if stage not in ("none", "complete") and build["units_reused"] != done:
        raise SystemExit(
            f"{done} units were done, and {build['units_reused']} found done in {out}."
        )
    if (summary["root_hash"], job.files(out)) != (whole.root_hash, whole.files):
        raise SystemExit(f"{job.folder / out} is another set than {job.folder / 'whole'}.")
    shutil.rmtree(job.folder / out)
    return {
        "job": job.name,
        "stage": stage,
        "units_done": done,
        "seconds": round(seconds, 1),
        "equal": True,
    }


def _stage(job: Job, out: str, num_shards: int) -> str:
    """The stage that a killed build was in."""
    if (job.folder / out / naming.MANIFEST).exists():
        return "complete"
    begun = {path.name[6:-5] for path in job.work(out).glob("began-*.json")}
    order = ("shard", "merge", "plan", "stage")
    known = next((stage for stage in order if stage in begun), "none")
    shards = len(list((job.folder / out).glob("*.tfrecord-*")))
    return "commit" if known == "shard" and shards == num_shards else known


def _await(path: Path, process: subprocess.Popen[bytes]) -> None:
    while not path.exists() and process.poll() is None:
        time.sleep(0.001)


def _finished(process: subprocess.Popen[bytes]) -> Any:
    """The summary of a build that succeeds."""
    output, _ = process.communicate(timeout=600)
    if process.returncode:
        raise SystemExit(f"A build ended with {process.returncode}.")
    return json.loads(output.splitlines()[-1])


if __name__ == "__main__":
    main()
