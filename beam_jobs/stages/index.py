"""Stage 5, index: the rows that shards have left become the index of a split, part by part.

A part is written by one worker, so that no process writes the index of a large set. The index of a
small split is one part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from beam_jobs.job_context import JobContext
from beam_jobs.progress import report
from beam_jobs.stages.shard import ShardResult, read_index_part
from foundation import storage
from shard_format import IndexWriter, file_info, naming
from shard_format.index_parts import plan_parts


class IndexTask(NamedTuple):
    """A part of an index to write.

    Attributes:
        split: Name of the split.
        file: Name of the part, relative to the set.
        shards: Shards whose rows it has, in order.
    """

    split: str
    file: str
    shards: list[ShardResult]


class IndexResult(NamedTuple):
    """A part of an index.

    Attributes:
        split: Name of the split.
        file: Name of the part, relative to the set.
        shards: Number of shards whose rows it has.
        bytes: Size of the part.
        sha256: SHA-256 of it, in hex.
    """

    split: str
    file: str
    shards: int
    bytes: int
    sha256: str


def index_tasks(
    splits: Iterable[str], results: Iterable[ShardResult], *, in_one: bool = False
) -> Iterator[IndexTask]:
    """The parts of the index of every split, in order.

    Args:
        splits: Names of the splits.
        results: All shards.
        in_one: Whether each index is one part, however large.
    """
    shards_of: dict[str, list[ShardResult]] = {split: [] for split in splits}
    for result in results:
        shards_of[result.split].append(result)
    for split, shards in shards_of.items():
        shards.sort(key=lambda result: result.shard)
        records = (result.info.records for result in shards)
        parts = [range(len(shards))] if in_one else plan_parts(records)
        for number, own in enumerate(parts):
            is_whole = len(parts) == 1
            file = naming.index_file(split) if is_whole else naming.index_part_file(split, number)
            yield IndexTask(split, file, [shards[shard] for shard in own])


def write_index_part(task: IndexTask, context: JobContext) -> IndexResult:
    """Writes a part of an index.

    Raises:
        InputError: The rows of a shard are damaged; the next build writes it again.
    """
    workspace = context.workspace
    place = workspace.out / task.file
    columns, scratch = context.record_type.index_columns, workspace.scratch_of(place)
    storage.make_folder(place.parent)
    shards = [ShardResult(*shard) for shard in task.shards]
    with IndexWriter(place, columns, durable=True, scratch=scratch) as writer:
        read = partial(read_index_part, workspace=workspace)
        tables = storage.in_parallel(read, shards, remote=storage.local_path(workspace.out) is None)
        for shard, table in zip(shards, tables, strict=True):
            writer.append(table)
            report(workspace.progress, "commit", shard.info.records)
    return IndexResult(task.split, task.file, len(shards), **file_info(place))
