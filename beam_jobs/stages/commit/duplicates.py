"""duplicates.parquet: every record of a duplicate cluster, and the record that was kept.

There may be more of them than fit in memory, so the clusters are read twice, in batches: for what
is known of each cluster, two bytes, and then for the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.columns import IntArray, int64
from beam_jobs.dedup.earlier import EARLIER_SPLIT
from beam_jobs.record_types import RecordType
from beam_jobs.staging.assignment import LEFT_OUT, SPLITS_FILE
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace, read_batches
from shard_format import naming

# Clusters with previews: as many as a report can show.
_PREVIEWED_CLUSTERS = 200
_SHOWN_PER_CLUSTER = 8
_ROW_GROUP = 1 << 13  # rows that are encoded at a time: some MiB


def write_duplicates(
    workspace: Workspace, sidecars: Sidecars, record_type: RecordType, names: list[str]
) -> list[str]:
    """Writes the file if there is any duplicate.

    Args:
        workspace: Has the clusters that the plan found.
        sidecars: All staged units.
        record_type: Makes previews.
        names: Names of the splits, by their numbers in the plan.

    Returns:
        The name of the file, relative to the set; nothing if there is none.
    """
    clusters = _describe_clusters(workspace)
    if not len(clusters.splits):
        return []
    rows = _rows(workspace, clusters, sidecars, record_type, pa.array(names, pa.string()))
    return _write(workspace, rows)


def write_rows(workspace: Workspace, table: pa.Table) -> list[str]:
    """Writes rows of duplicates.parquet, in order; the name of the file, relative to the set."""
    return _write(workspace, iter([table]))


def _write(workspace: Workspace, tables: Iterator[pa.Table]) -> list[str]:
    """Writes at least one table in row groups, of which one is in memory at a time."""
    waiting = next(tables)
    with (
        workspace.write_arrow(workspace.out / naming.DUPLICATES, durable=True) as sink,
        pq.ParquetWriter(sink, waiting.schema, compression="snappy") as writer,
    ):
        for table in tables:
            waiting = pa.concat_tables([waiting, table])
            while len(waiting) > _ROW_GROUP:
                group = waiting.slice(0, _ROW_GROUP).combine_chunks()
                waiting = waiting.slice(_ROW_GROUP)  # without it, before the group is encoded
                writer.write_table(group, _ROW_GROUP)
        writer.write_table(waiting.combine_chunks(), _ROW_GROUP)
    return [naming.DUPLICATES]


class _Described(NamedTuple):
    """What is known of the clusters, in the order of the rows.

    Attributes:
        splits: [clusters] int8, the split of the kept record; LEFT_OUT if the whole cluster is left
            out, or the kept record is not in this build.
        shown: [clusters] whether it has previews.
    """

    splits: npt.NDArray[np.int8]
    shown: npt.NDArray[np.bool_]


def _describe_clusters(workspace: Workspace) -> _Described:
    splits, conflicts = bytearray(), bytearray()
    rows = _numbered(workspace)
    first = next(rows, None)
    if first is None:  # perhaps there are no records, and no splits
        return _Described(np.zeros(0, np.int8), np.zeros(0, bool))
    with workspace.local_copy(workspace.plan / SPLITS_FILE) as path:
        split_of = np.load(path, mmap_mode="r")
        for table, cluster, _ in itertools.chain([first], rows):
            new = int(cluster[-1]) + 1 - len(splits)
            splits += np.full(new, LEFT_OUT, np.int8).tobytes()
            conflicts += bytes(new)
            # Views, since a bytearray that has one cannot grow.
            kept = np.asarray(pc.equal(table["record_id"], table["kept_id"]).to_numpy(), bool)
            np.frombuffer(splits, np.int8)[cluster[kept]] = split_of[int64(table["record"])[kept]]
            differ = np.asarray(table["conflict"].to_numpy(), bool)
            np.frombuffer(conflicts, np.int8)[cluster[differ]] = 1
    differs = np.frombuffer(conflicts, np.int8) == 1
    # Those with conflicting labels first, then by id.
    chosen = np.argsort(~differs, kind="stable")[:_PREVIEWED_CLUSTERS]
    shown = np.zeros(len(differs), bool)
    shown[chosen] = True
    return _Described(np.frombuffer(splits, np.int8), shown)


def _rows(
    workspace: Workspace,
    clusters: _Described,
    sidecars: Sidecars,
    record_type: RecordType,
    names: pa.Array,
) -> Iterator[pa.Table]:
    """The rows of duplicates.parquet; none is in the shards."""
    for table, cluster, place in _numbered(workspace):
        records = int64(table["record"])
        split_of = clusters.splits[cluster]
        splits = names.take(pa.array(split_of.astype(np.int64), mask=split_of == LEFT_OUT))
        kept = pc.and_not(pc.equal(table["record_id"], table["kept_id"]), table["dropped"])
        previews: list[bytes | None] = [None] * len(table)
        shown = np.flatnonzero(clusters.shown[cluster] & (place < _SHOWN_PER_CLUSTER))
        examples = sidecars.examples(records[shown])
        for row, example in zip(shown.tolist(), examples, strict=True):
            previews[row] = record_type.preview(example)
        table = table.drop_columns(["record"])
        if EARLIER_SPLIT.name in table.column_names:  # the kept record may be of an earlier one
            earlier = table[EARLIER_SPLIT.name]
            again = pc.and_(  # the same record once more
                pc.equal(table["record_id"], table["kept_id"]), pc.is_valid(earlier)
            )
            kept, splits = pc.or_(kept, again), pc.coalesce(earlier, splits)
            table = table.drop_columns([EARLIER_SPLIT.name])
        table = table.append_column(pa.field("split", pa.string()), splits)
        table = table.append_column("preview", pa.array(previews, pa.large_binary()))
        yield table.filter(pc.invert(kept))


def _numbered(workspace: Workspace) -> Iterator[tuple[pa.Table, IntArray, IntArray]]:
    """Rows with the number of the cluster of each, and its place among the rows of that cluster."""
    last, cluster, place = None, -1, 0
    for table in read_batches(workspace.clusters):
        ids, rows = table["kept_id"].combine_chunks(), np.arange(len(table))
        starts = np.ones(len(table), bool)
        starts[0] = ids[0].as_py() != last
        starts[1:] = pc.not_equal(ids.slice(1), ids.slice(0, len(table) - 1)).to_numpy(
            zero_copy_only=False
        )
        # A cluster that began in an earlier batch begins before row 0 of this one.
        begin = np.maximum.accumulate(np.where(starts, rows, -place))
        numbers = cluster + np.cumsum(starts)
        yield table, numbers, rows - begin
        last, cluster, place = ids[-1].as_py(), int(numbers[-1]), int(rows[-1] - begin[-1]) + 1
