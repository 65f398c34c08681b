"""Memory of writers: of a corpus, and of one that is ten times as large."""

from __future__ import annotations

import functools

from benchmarks.corpus import make_corpus
from benchmarks.measure import Run, run
from benchmarks.scorecard.row import Bench, Column, Row, Subject, detail
from benchmarks.scorecard.rows.kills import Writer, writers

_COUNT, _SMALL_COUNT = 840, 48
_TIMES = 10
_SAMPLE_SECONDS = 0.1


def _grow(bench: Bench, writer: Writer) -> Run:
    """Builds of both corpora; the figures are of the larger one."""
    count, peaks = _SMALL_COUNT if bench.is_small else _COUNT, []
    for size in (count, _TIMES * count):
        photos, out = make_corpus(bench.work, size), bench.work / "out"
        arguments = (*writer.arguments, photos, out, *writer.last)
        done = run(
            writer.module, *arguments, python=writer.python(bench), sample_seconds=_SAMPLE_SECONDS
        )
        peaks.append(done.peak_mib)
    small, large = peaks
    details = {**done.details, "small": small, "large": large, "growth": large / small}
    return Run(
        done.records, done.seconds, done.cpu_seconds, large, done.private_mib, details, done.command
    )


def _subjects(bench: Bench) -> list[Subject]:
    return [
        Subject(name, whose, functools.partial(_grow, bench, writer), writer.environment, page)
        for name, whose, writer, page in writers()
        if name != "LitData, checkpoints"  # as without
    ]


MEMORY = Row(
    "memory",
    "memory of a build of 840 photographs, and of 8,400",
    """
The greatest size of the process tree (PSS, pages that processes share count once) in the job of the
row "photographs", of a corpus and of one that is ten times as large. shardmill works in threads
up to 128 MiB of photographs, which the small corpus does not reach, and in processes above.
""",
    (
        Column("MiB of the large one", detail("large"), "less"),
        Column("MiB of the small one", detail("small"), "less"),
        Column("growth", detail("growth"), "less", 2),
    ),
    _subjects,
    turns=3,
)
