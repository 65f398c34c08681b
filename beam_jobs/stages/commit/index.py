"""The rows that shards have left become the index of a split, part by part.

A part is written by one worker, with what the commit needs to know of its records, so that no
process writes or reads the index of a large set. The index of a small split is one part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.counters import sum_counters
from beam_jobs.job_context import JobContext
from beam_jobs.memory import release_memory
from beam_jobs.progress import report
from beam_jobs.stages.commit.statistics import SplitSums
from beam_jobs.stages.labels import with_class_names
from beam_jobs.stages.plan import load_plan
from beam_jobs.stages.shard import ShardDone, WrittenShard, read_counters, read_index_part
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace
from beam_jobs.workspace import write_table as write_arrow_table
from foundation import storage
from foundation.storage import Place
from shard_format import IndexWriter, InputError, ShardInfo, file_info, file_sha256, naming
from shard_format.croissant import write_table
from shard_format.index_parts import plan_parts

_NOTES = b"notes"  # metadata of the counters of a part


class IndexTask(NamedTuple):
    """A part of an index to write.

    Attributes:
        split: Name of the split.
        file: Name of the part, relative to the set.
        first: The first shard whose rows it has.
        end: One behind the last one.
        num_shards: Number of shards of the split.
        records: Number of rows.
    """

    split: str
    file: str
    first: int
    end: int
    num_shards: int
    records: int


class IndexResult(NamedTuple):
    """A part of an index.

    Attributes:
        split: Name of the split.
        file: Name of the part, relative to the set.
        shards: Number of shards whose rows it has.
        bytes: Size of the part.
        sha256: SHA-256 of it, in hex.
        notes_sha256: That of the notes that `read_notes` reads.
    """

    split: str
    file: str
    shards: int
    bytes: int
    sha256: str
    notes_sha256: str


class IndexNotes(NamedTuple):
    """What the commit needs to know of the records of a part.

    Attributes:
        shards: Their shards.
        sums: Values of their `SplitSums`.
        counters: What the shards of the training split have counted; else empty.
        table: What croissant.json says of their table; empty without records.
    """

    shards: list[ShardInfo]
    sums: Any
    counters: pa.Table
    table: dict[str, Any]


def write_index(done: Iterable[bytes], context: JobContext) -> Iterator[IndexResult]:
    """Writes the index of every split here, part by part; see `index_tasks`."""
    return (write_index_part(task, context) for task in index_tasks(done, context))


def index_tasks(done: Iterable[bytes], context: JobContext) -> list[IndexTask]:
    """The parts of the index of every split, in order; with them the commit begins.

    Args:
        done: All shards, see `ShardDone`.
        context: The job.

    Raises:
        InputError: A runner lost a shard.
    """
    workspace = context.workspace
    workspace.mark("commit")
    num_shards = load_plan(workspace).num_shards
    records_of = {split: np.full(number, -1, np.int64) for split, number in num_shards.items()}
    for packed in done:
        split, shard, records = ShardDone.unpack(packed)
        records_of[split][shard] = records
    tasks: list[IndexTask] = []
    for split, records_of_shards in records_of.items():
        if lost := int((records_of_shards < 0).sum()):
            raise InputError(
                f"The Beam runner lost work: {lost} of {num_shards[split]} shards of {split!r} "
                "have no result. Run the same command again, or without the Beam options that "
                "cause this."
            )
        tasks += _tasks(split, records_of_shards, in_one=context.options.index_in_one)
    report(workspace.progress, "commit", total=sum(task.records for task in tasks))
    return tasks


def _tasks(split: str, records_of: IntArray, *, in_one: bool) -> Iterator[IndexTask]:
    parts = [range(len(records_of))] if in_one else plan_parts(records_of.tolist())
    for number, own in enumerate(parts):
        is_whole = len(parts) == 1
        file = naming.index_file(split) if is_whole else naming.index_part_file(split, number)
        records = int(records_of[own.start : own.stop].sum())
        yield IndexTask(split, file, own.start, own.stop, len(records_of), records)


def write_index_part(task: IndexTask, context: JobContext) -> IndexResult:
    """Writes a part of an index, its table for Croissant, and notes of it.

    Raises:
        InputError: What a shard has left is damaged; the next build writes it again.
    """
    workspace, plan = context.workspace, load_plan(context.workspace)
    place, scratch = workspace.out / task.file, workspace.scratch_of(workspace.out / task.file)
    columns, training = context.record_type.index_columns, task.split == plan.training
    sums = SplitSums(plan.class_names, context.record_type, training=training)
    names = [
        naming.shard_file(context.options.name, task.split, shard, task.num_shards)
        for shard in range(task.first, task.end)
    ]
    storage.make_folder(place.parent)
    remote = storage.local_path(workspace.out) is None
    shards: list[WrittenShard] = []
    with IndexWriter(place, columns, durable=True, scratch=scratch) as writer:
        read = partial(read_index_part, workspace=workspace)
        for shard, table in storage.in_parallel(read, names, remote=remote):
            shards.append(shard)
            writer.append(table)
            sums.add(table)
            report(workspace.progress, "commit", shard.info.records)
    counted = (read_counters(shard, workspace) for shard in shards if training)
    counters = sum_counters(table for table in counted if table is not None)
    described = {}
    if task.records:
        release_memory()  # of the index: the table would add to it
        labels = with_class_names(context.record_type.schema, plan.class_names).labels
        target = workspace.out / _table_of(task.file)
        described = write_table(
            place, names, task.first, labels, target, workspace.scratch_of(target)
        )
    infos = [shard.info for shard in shards]
    digest = _write_notes(
        workspace, task.file, IndexNotes(infos, sums.values(), counters, described)
    )
    return IndexResult(task.split, task.file, len(shards), **file_info(place), notes_sha256=digest)


def _table_of(file: str) -> str:
    """The table of an index or of a part of it; see `naming.table_files`."""
    return file.removesuffix(".arrow") + ".parquet"


def _write_notes(workspace: Workspace, file: str, notes: IndexNotes) -> str:
    said = notes._asdict() | {"shards": [vars(info) for info in notes.shards], "counters": None}
    counters = notes.counters.replace_schema_metadata({_NOTES: json.dumps(said).encode()})
    write_arrow_table(workspace, _notes(workspace, file), counters)
    return file_sha256(_notes(workspace, file))


def read_notes(workspace: Workspace, part: IndexResult) -> IndexNotes:
    """The notes of a part.

    Raises:
        InputError: They are damaged.
    """
    with dropping_damaged(lambda: None):  # every build writes them again
        counters = workspace.read_checked(_notes(workspace, part.file), part.notes_sha256)
    said = json.loads(counters.schema.metadata[_NOTES])
    said["shards"] = [ShardInfo(**info) for info in said["shards"]]
    return IndexNotes(**{**said, "counters": counters.replace_schema_metadata()})


def _notes(workspace: Workspace, file: str) -> Place:
    return workspace.shards / f"{file.rpartition('/')[2]}.notes"
