"""duplicates.parquet, or its parts: every record of a duplicate cluster, and the one that was kept.

Planning has sent each part its rows; there may be more of them than fit in memory. A part is
written by one worker, so that no process writes all duplicates of a large set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.columns import int64
from beam_jobs.dedup.clusters import CLUSTER_ORDER
from beam_jobs.stages.plan import Plan
from beam_jobs.stages.plan.list_duplicates import (
    KEPT_RECORD,
    KEPT_SPLIT,
    kept_splits,
    listed_rows,
    with_splits,
)
from beam_jobs.staging.assignment import LEFT_OUT
from beam_jobs.staging.reordering import RowSorter, StructuredArray
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import file_info, naming
from shard_format.duplicates import DUPLICATES_SCHEMA

_ROW_GROUP = 1 << 13  # rows that are encoded at a time: some MiB


class DuplicatesTask(NamedTuple):
    """A part of the duplicates to write.

    Attributes:
        file: Name of the part, relative to the set.
        part: Its number.
        sources: Number of the files of clusters that its rows come from.
        names: Names of the splits, by their numbers, if the splits of kept records come from as
            many ranges of units; else the rows have them.
    """

    file: str
    part: int
    sources: int
    names: list[str]


class WrittenFile(NamedTuple):
    """A file of the set that a worker has written.

    Attributes:
        file: Its name, relative to the set.
        bytes: Its size.
        sha256: Its SHA-256, in hex.
    """

    file: str
    bytes: int
    sha256: str


def duplicates_tasks(
    parts: int, sources: int = 1, names: Sequence[str] = ()
) -> list[DuplicatesTask]:
    """The parts of the duplicates, in order.

    Args:
        parts: How many there are; a set without duplicates has none.
        sources: Number of the files of clusters that their rows come from.
        names: Names of the splits. Where there are several files, as many ranges of units have
            sent the splits of kept records; else the rows have them.
    """
    sent = list(names) if sources > 1 else []
    return [
        DuplicatesTask(naming.duplicates_file(part, parts), part, sources, sent)
        for part in range(parts)
    ]


def planned_duplicates(plan: Plan) -> list[DuplicatesTask]:
    """The parts of the duplicates of a build."""
    names = list(plan.num_shards)
    return duplicates_tasks(plan.duplicates_parts, len(plan.cluster_files), names)


def write_duplicates_part(task: DuplicatesTask, workspace: Workspace) -> WrittenFile:
    """Writes a part of the duplicates; writing it again has the same bytes.

    Args:
        task: The part.
        workspace: The build; planning has left the rows in it.

    Raises:
        InputError: Its rows are damaged; the next build plans again.
    """
    place = workspace.out / task.file
    storage.make_folder(place.parent)
    received = _received_splits(task, workspace)
    with closing(RowSorter(workspace.scratch_file(), DUPLICATES_SCHEMA, CLUSTER_ORDER)) as rows:
        for table in listed_rows(workspace).tables(task.part, task.sources):
            kept = table[KEPT_RECORD.name]
            table = table.drop_columns([KEPT_RECORD.name])
            if task.names:
                table = with_splits(table, _splits_of(kept, received), task.names)
            rows.append(table.cast(DUPLICATES_SCHEMA))
        _write(workspace, place, rows.in_order())
    return WrittenFile(task.file, **file_info(place))


def _received_splits(task: DuplicatesTask, workspace: Workspace) -> StructuredArray:
    """[n] KEPT_SPLIT, by record: at most one for each row of the part."""
    slices = [np.zeros(0, KEPT_SPLIT)]
    if task.names:
        rows = kept_splits(workspace).rows(task.part, task.sources, KEPT_SPLIT)
        slices += [own for _, own in rows]
    return np.sort(np.concatenate(slices), order="record")


def _splits_of(kept: pa.ChunkedArray, received: StructuredArray) -> npt.NDArray[np.int8]:
    """[n] int8, the split of each kept record; LEFT_OUT where there is none."""
    splits = np.full(len(kept), LEFT_OUT, np.int8)
    rows = np.flatnonzero(pc.is_valid(kept).to_numpy())
    places = np.searchsorted(received["record"], int64(kept.drop_null()))
    splits[rows] = received["split"][places]
    return splits


def _write(workspace: Workspace, place: Place, tables: Iterator[pa.Table]) -> None:
    """Writes rows in row groups, of which one is in memory at a time."""
    waiting = DUPLICATES_SCHEMA.empty_table()
    with (
        workspace.write_arrow(place, durable=True) as sink,
        pq.ParquetWriter(sink, DUPLICATES_SCHEMA, compression="snappy") as writer,
    ):
        for table in tables:
            waiting = pa.concat_tables([waiting, table])
            while len(waiting) > _ROW_GROUP:
                group = waiting.slice(0, _ROW_GROUP).combine_chunks()
                waiting = waiting.slice(_ROW_GROUP)  # without it, before the group is encoded
                writer.write_table(group, _ROW_GROUP)
        writer.write_table(waiting.combine_chunks(), _ROW_GROUP)
