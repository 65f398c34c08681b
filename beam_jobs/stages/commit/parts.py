"""What workers write before the commit of a large corpus: parts of its largest files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from beam_jobs.job_context import JobContext
from beam_jobs.stages.commit.duplicates import (
    DuplicatesTask,
    WrittenFile,
    planned_duplicates,
    write_duplicates_part,
)
from beam_jobs.stages.commit.index import (
    IndexResult,
    IndexTask,
    index_tasks,
    write_index_part,
)
from beam_jobs.stages.commit.quarantine_parts import (
    QuarantineTask,
    quarantine_tasks,
    write_quarantine_part,
)
from beam_jobs.stages.commit.shard_set import WrittenParts
from beam_jobs.stages.plan import load_plan
from beam_jobs.staging.item_list import ItemsTask, items_tasks, write_items_part

_INDEX, _QUARANTINE, _DUPLICATES = "index", "quarantine", "duplicates"
_ITEMS = "items"


class PartTask(NamedTuple):
    """A part to write.

    Attributes:
        kind: What it is a part of.
        values: Those of the task of this kind, a tuple.
    """

    kind: str
    values: Any


class PartResult(NamedTuple):
    """A part that is written.

    Attributes:
        kind: What it is a part of.
        values: Those of an IndexResult, or of a WrittenFile.
    """

    kind: str
    values: Any


def part_tasks(
    done: Iterable[bytes], measured: Iterable[int] | None, context: JobContext
) -> Iterator[PartTask]:
    """All parts to write.

    Args:
        done: All shards, see `ShardDone`.
        measured: The tasks that have measured the quarantine; None if the commit writes it, the
            duplicates and the list of items.
        context: The job.
    """
    for index in index_tasks(done, context):
        yield PartTask(_INDEX, index)
    if measured is None:
        return
    for quarantine in quarantine_tasks(measured, context):
        yield PartTask(_QUARANTINE, quarantine)
    for duplicates in planned_duplicates(load_plan(context.workspace)):
        yield PartTask(_DUPLICATES, duplicates)
    for items in items_tasks(context.workspace):
        yield PartTask(_ITEMS, items)


def write_part(task: PartTask, context: JobContext) -> PartResult:
    """Writes a part.

    Raises:
        InputError: What it is made of is damaged.
    """
    if task.kind == _INDEX:
        return PartResult(_INDEX, write_index_part(IndexTask(*task.values), context))
    if task.kind == _ITEMS:
        workspace = context.workspace
        named = write_items_part(ItemsTask(*task.values), workspace, workspace.out)
        ((name, info),) = named.items()
        part = WrittenFile(name, **info)
    elif task.kind == _QUARANTINE:
        part = write_quarantine_part(QuarantineTask(*task.values), context)
    else:
        part = write_duplicates_part(DuplicatesTask(*task.values), context.workspace)
    return PartResult(task.kind, part)


def written_parts(results: Sequence[PartResult], *, others: bool) -> WrittenParts:
    """The parts that workers have written.

    Args:
        results: What `write_part` returned.
        others: Whether parts of all files are among them, and not of the index alone.
    """
    indexes = [IndexResult(*one.values) for one in results if one.kind == _INDEX]
    items = [WrittenFile(*one.values) for one in results if one.kind == _ITEMS]
    named = (_QUARANTINE, _DUPLICATES)
    files = [WrittenFile(*one.values) for one in results if one.kind in named]
    return WrittenParts(indexes, files if others else None, items)
