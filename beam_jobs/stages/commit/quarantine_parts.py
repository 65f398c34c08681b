"""The quarantine of a large corpus, whose parts are written by many workers.

A part ends where so many bytes are in it, so where it begins depends on all rows before it. Workers
write down the sizes of the rows of some units each; from them one worker knows the rows of every
part, which are those that `write_quarantine` gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import bounds_of
from beam_jobs.job_context import JobContext
from beam_jobs.memory import system_memory_pool
from beam_jobs.progress import report
from beam_jobs.stages.commit import quarantine
from beam_jobs.stages.commit.duplicates import WrittenFile
from beam_jobs.stages.commit.quarantine import rejects_of
from beam_jobs.stages.plan.merge_levels import part_of
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.removed import read_planned
from beam_jobs.staging.units import read_units
from beam_jobs.workspace import Workspace, read_planned_marker, write_marker
from foundation import storage
from foundation.storage import Place
from shard_format import file_info, naming


class RejectTask(NamedTuple):
    """Units whose rejected records are measured.

    Attributes:
        number: Number of the task.
        units: (key, checksum of the rejections) of the units, neighbours in the listing.
    """

    number: int
    units: list[tuple[str, str]]


class QuarantineTask(NamedTuple):
    """A part of the quarantine to write.

    Attributes:
        number: Number of the part.
        rows: (task that measured them, first row, one behind the last row) of its rows, in order.
    """

    number: int
    rows: list[tuple[int, int, int]]


def reject_tasks(
    summaries: Iterable[UnitSummary], workspace: Workspace, ranges: int
) -> Iterator[RejectTask]:
    """The units that have rejected records, in the order of the listing, in so many tasks."""
    rejected = {
        one.key: one.sha256.get("rejects", "") for one in summaries if one.refused or one.filtered
    }
    units = [
        (unit.key, rejected[unit.key]) for unit in read_units(workspace) if unit.key in rejected
    ]
    for number in range(ranges):
        first, end = part_of(number, ranges, len(units))
        yield RejectTask(number, units[first:end])


def measure_rejects(task: RejectTask, context: JobContext) -> int:
    """Writes down the sizes of the rows that some units have in the quarantine.

    Returns:
        The number of the task.

    Raises:
        InputError: The rejections of a unit are damaged, and it is staged again by the next build.
    """
    workspace = context.workspace
    removed = read_planned(workspace)
    sizes = [
        (key, sha256, [row.nbytes for row in rejects_of(workspace, key, sha256, removed)])
        for key, sha256 in task.units
    ]
    write_marker(workspace, _sizes(workspace, task.number), sizes)
    return task.number


def quarantine_tasks(measured: Iterable[int], context: JobContext) -> Iterator[QuarantineTask]:
    """The parts of the quarantine.

    Args:
        measured: Numbers of the tasks that have measured it.
        context: The job.
    """
    workspace, cuts = context.workspace, quarantine.QuarantineCuts()
    number, rows, total = 0, list[tuple[int, int, int]](), 0
    for task in sorted(measured):
        begin = row = 0
        units = read_planned_marker(_sizes(workspace, task))
        for row, size in enumerate((size for *_, sizes in units for size in sizes), 1):
            _, is_full = cuts.ends(size)
            if is_full:
                yield QuarantineTask(number, [*rows, (task, begin, row)])
                number, rows, begin = number + 1, [], row
        if begin < row:
            rows.append((task, begin, row))
        total += row
    if rows:
        yield QuarantineTask(number, rows)
    report(workspace.progress, "commit", total=total)


def write_quarantine_part(task: QuarantineTask, context: JobContext) -> WrittenFile:
    """Writes a part of the quarantine.

    Raises:
        InputError: As of `measure_rejects`.
    """
    workspace, name = context.workspace, naming.quarantine_file(task.number)
    place = workspace.out / name
    storage.make_folder(place.parent)
    with system_memory_pool(), workspace.write_arrow(place, durable=True) as sink:
        rows = _rows(task, workspace)
        quarantine.write_part(sink, next(rows), rows)
    return WrittenFile(name, **file_info(place))


def _rows(task: QuarantineTask, workspace: Workspace) -> Iterator[pa.RecordBatch]:
    removed = read_planned(workspace)
    for number, first, end in task.rows:
        units: Sequence[tuple[str, str, list[int]]] = read_planned_marker(_sizes(workspace, number))
        begins = bounds_of(np.array([len(sizes) for *_, sizes in units], np.int64))
        for (key, sha256, sizes), begin in zip(units, begins.tolist(), strict=False):
            start, stop = max(first - begin, 0), min(end - begin, len(sizes))
            if start < stop:
                rows = islice(rejects_of(workspace, key, sha256, removed), start, stop)
                for row in rows:
                    report(workspace.progress, "commit", 1)
                    yield row


def _sizes(workspace: Workspace, number: int) -> Place:
    return workspace.plan / f"rejects-{number:05d}.json"
