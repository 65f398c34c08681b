"""A writer is killed, and the same command is run again: what it costs, and what is lost."""

from __future__ import annotations

import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from benchmarks.corpus import make_corpus
from benchmarks.measure import HERE, Run, kill_tree, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail
from benchmarks.scorecard.rows.preprocess_images import IMAGE_OPTIONS, PEERS, TFDS_PAGE
from benchmarks.subjects.output import KEEP

_COUNT, _SMALL_COUNT = 2100, 256
_MOMENTS = (0.4, 0.7, 0.9)  # of the time of a build that is not killed


class Writer(NamedTuple):
    """A build that is killed.

    Attributes:
        module: Module in benchmarks/subjects.
        arguments: Its arguments in front of the corpus.
        last: Its arguments behind the folder of the set.
        records: Key in benchmarks.subjects.peer_records of what reads the set.
        environment: What it runs in: a name in benchmarks/peers, or empty.
    """

    module: str
    arguments: tuple[str, ...]
    last: tuple[str, ...]
    records: str
    environment: str = ""

    def python(self, bench: Bench) -> str:
        """Its interpreter."""
        return bench.python(self.environment) if self.environment else sys.executable


_SHARDMILL = Writer("shardmill_build", ("image",), (json.dumps(IMAGE_OPTIONS),), "shardmill")
_TFDS = Writer("tfds_beam", (), ("in_memory", "encoded"), "tfds")


def writers() -> list[tuple[str, str, Writer, str]]:
    """(name, whose, writer, page of its documentation) of all that write photographs."""
    peers = [
        (name, whose, Writer("peer_builds", (library, "kernels"), (), module, "readers"), page)
        for name, whose, library, module, page in PEERS
    ]
    ours = ("shardmill", OURS, _SHARDMILL, "")
    return [ours, ("TFDS on Beam", "TFDS", _TFDS, TFDS_PAGE), *peers]


def _subjects(bench: Bench) -> list[Subject]:
    return [
        Subject(name, whose, functools.partial(_killed, bench, writer), writer.environment, page)
        for name, whose, writer, page in writers()
    ]


def _killed(bench: Bench, writer: Writer) -> Run:
    """Kills a build at several moments, runs it again, and counts what its set then has."""
    count = _SMALL_COUNT if bench.is_small else _COUNT
    photos, out = make_corpus(bench.work, count), bench.work / "killed"
    arguments = [*writer.arguments, str(photos), str(out), *writer.last]
    python = writer.python(bench)
    shutil.rmtree(out, ignore_errors=True)
    whole = run(writer.module, *arguments, python=python)
    costs, failed, lost, twice = [], [], 0, 0
    for moment in _MOMENTS:
        shutil.rmtree(out, ignore_errors=True)
        before = _kill_at(writer.module, arguments, python, moment * _seconds(whole))
        try:
            again = run(writer.module, *arguments, python=python, variables={KEEP: "1"})
        except SystemExit as error:
            failed.append(str(error).strip().splitlines()[-1])
            shutil.rmtree(out)
            again = run(writer.module, *arguments, python=python)
        costs.append((before + _cpu(again)) / _cpu(whole))
        kept = run("peer_records", writer.records, out, python=python)
        if kept.details["error"]:
            failed.append(kept.details["error"])
        lost += max(0, count - kept.details["distinct"])
        twice += kept.records - kept.details["distinct"]
    details = {
        "cost": round(statistics.mean(costs), 3),
        "by_hand": len(failed),
        "lost": lost,
        "twice": twice,
        "errors": failed,
    }
    return Run(count, whole.seconds, whole.cpu_seconds, 0, 0, details, whole.command)


def _seconds(whole: Run) -> float:
    seconds: float = whole.details["whole_seconds"]
    return seconds


def _cpu(whole: Run) -> float:
    seconds: float = whole.details["whole_cpu_seconds"]
    return seconds


def _kill_at(module: str, arguments: Sequence[str], python: str, seconds: float) -> float:
    """Kills a build after that many seconds; the CPU seconds that it took."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(HERE.parent)}
    process = subprocess.Popen(
        [python, "-m", f"benchmarks.subjects.{module}", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=HERE.parent,
    )
    time.sleep(seconds)
    taken = _tree_cpu(process.pid)
    kill_tree(process.pid)
    process.wait()
    return taken


def _tree_cpu(pid: int) -> float:
    try:
        root = psutil.Process(pid)
        times = [one.cpu_times() for one in [root, *root.children(recursive=True)]]
    except psutil.NoSuchProcess:
        return 0.0
    return sum(one.user + one.system + one.children_user + one.children_system for one in times)


KILLS = Row(
    "kill",
    "a writer is killed at three moments, and run again",
    """
The job of the row "photographs" is killed with SIGKILL after 40, 70 and 90 % of its time, and the
same command is run again. "Work" is the CPU time of both runs, in proportion to that of one: 1.0
where nothing is done twice, 1.4 to 1.9 where all begins anew. "By hand" is how often the second run
refuses, or the set cannot be read, until somebody removes what the first one left. Then the records
of the set are counted.
""",
    (
        Column("work of both runs", detail("cost"), "less", 2),
        Column("by hand, of 3", detail("by_hand")),
        Column("records lost", detail("lost")),
        Column("records twice", detail("twice")),
    ),
    _subjects,
    turns=2,
)
