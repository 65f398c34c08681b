"""duplicates.parquet: every record of a duplicate cluster, and the record that was kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.columns import IntArray, int64
from beam_jobs.dedup.earlier import EARLIER_SPLIT
from beam_jobs.record_types import RecordType
from beam_jobs.staging.assignment import LEFT_OUT, SPLITS_FILE
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace, read_table
from shard_format import naming

# Clusters with previews: as many as a report can show.
_PREVIEWED_CLUSTERS = 200
_SHOWN_PER_CLUSTER = 8
_ROW_GROUP = 1 << 16


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
    members = read_table(workspace.clusters)
    if not len(members):
        return []
    records = int64(members["record"])
    table = members.drop_columns(["record"])
    splits, again = _splits(workspace, members, names), None
    if EARLIER_SPLIT.name in table.column_names:  # the kept record may be of an earlier generation
        again = pc.and_(  # the same record once more
            pc.equal(table["record_id"], table["kept_id"]), pc.is_valid(table[EARLIER_SPLIT.name])
        )
        splits = pc.coalesce(table[EARLIER_SPLIT.name], splits)
        table = table.drop_columns([EARLIER_SPLIT.name])
    table = table.append_column("split", splits)
    table = table.append_column("preview", _previews(members, records, sidecars, record_type))
    # The kept records are in the shards.
    kept = pc.and_not(pc.equal(table["record_id"], table["kept_id"]), table["dropped"])
    if again is not None:
        kept = pc.or_(kept, again)
    return write_rows(workspace, table.filter(pc.invert(kept)))


def write_rows(workspace: Workspace, table: pa.Table) -> list[str]:
    """Writes rows of duplicates.parquet, in order; the name of the file, relative to the set."""
    with workspace.write_arrow(workspace.out / naming.DUPLICATES, durable=True) as sink:
        pq.write_table(table, sink, row_group_size=_ROW_GROUP, compression="snappy")
    return [naming.DUPLICATES]


def _splits(workspace: Workspace, members: pa.Table, names: list[str]) -> pa.Array:
    """The split of each row's kept record; null if the whole cluster is left out."""
    kept = members.filter(pc.equal(members["record_id"], members["kept_id"]))
    with workspace.local_copy(workspace.plan / SPLITS_FILE) as path:
        numbers = np.load(path, mmap_mode="r")[int64(kept["record"])].astype(np.int64)
    at = pc.index_in(members["kept_id"], value_set=kept["record_id"].combine_chunks())
    numbers = np.append(numbers, LEFT_OUT)  # where the kept record is not in this build
    of_row = numbers[np.asarray(pc.fill_null(at, -1).to_numpy(), np.int64)]
    named = [names[number] if number >= 0 else None for number in of_row.tolist()]
    return pa.array(named, pa.string())


def _previews(
    members: pa.Table, records: IntArray, sidecars: Sidecars, record_type: RecordType
) -> pa.Array:
    """Previews of some clusters: those with conflicting labels first, then by id."""
    clusters = members.group_by("kept_id").aggregate([("conflict", "max")])
    clusters = clusters.sort_by([("conflict_max", "descending"), ("kept_id", "ascending")])
    chosen = clusters["kept_id"].slice(0, _PREVIEWED_CLUSTERS).combine_chunks()
    rank = _rank_in_cluster(members)
    wanted = pc.is_in(members["kept_id"], value_set=chosen).to_numpy() & (rank < _SHOWN_PER_CLUSTER)
    rows = np.flatnonzero(wanted)
    previews: list[bytes | None] = [None] * len(members)
    for row in rows.tolist():
        previews[row] = record_type.preview(sidecars.example(int(records[row])))
    return pa.array(previews, pa.large_binary())


def _rank_in_cluster(members: pa.Table) -> IntArray:
    """[n] int64: how many rows of the same cluster come before each row."""
    codes = pc.rank(members["kept_id"], tiebreaker="min").to_numpy().astype(np.int64) - 1
    return np.arange(len(members)) - codes
