"""The rows of the duplicates of a set: from clusters to the workers that write the parts of them.

Clusters come in files, of a range each or of the whole corpus; the rows of each part leave in an
exchange. What is known of a cluster, a byte or a number, is found in a pass of its own, since the
kept record may be any row of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, int64
from beam_jobs.dedup.clusters import CLUSTER_ORDER
from beam_jobs.dedup.earlier import EARLIER_SPLIT
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.exchange import Exchange, table_pieces
from beam_jobs.staging.reordering import RowSorter
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace, read_batches
from foundation.storage import Place
from shard_format.duplicates import DUPLICATES_SCHEMA, LeadingClusters, num_parts, parts_of

# Clusters with previews: as many as a report can show.
_PREVIEWED_CLUSTERS = 200
_SHOWN_PER_CLUSTER = 8
_PART = pa.field("part", pa.int64())
LISTED, KEPT_SPLITS = "listed", "kept-splits"  # exchanges

# The kept record of the cluster of a row whose split is looked up later; and that split.
KEPT_RECORD = pa.field("kept_record", pa.int64())
LISTED_SCHEMA = DUPLICATES_SCHEMA.append(KEPT_RECORD)
KEPT_SPLIT = np.dtype([("record", np.int64), ("split", np.int8)])

Value = TypeVar("Value", np.int8, np.int64)


def list_at_once(context: JobContext, sidecars: Sidecars, assignment: Assignment) -> int:
    """Lists the duplicates of a job that one worker plans; how many files they will be.

    Args:
        context: The job; its workspace has the clusters.
        sidecars: All staged units.
        assignment: The splits, of which none changes any more.
    """
    workspace, preview = context.workspace, context.record_type.preview
    with workspace.local_copy(workspace.clusters) as clusters:
        surveys = [survey(clusters)]
        parts = parts_to_write(surveys, context.options)
        if parts:
            rows = list_rows(
                clusters,
                previewed_clusters(surveys),
                lambda records: map(preview, sidecars.examples(records)),
                assignment.split_of.take,
                np.int8,
            )
            tables = (with_splits(table, split_of, assignment.names) for table, split_of in rows)
            listed_rows(workspace).finish([send_rows(workspace, 0, tables, parts)])
    return parts


class ListedClusters(NamedTuple):
    """What decides how the rows of some clusters are listed.

    Attributes:
        rows: Number of rows to list.
        conflicting: Kept ids of the first clusters with conflicting labels.
        first: Kept ids of the first clusters.
    """

    rows: int
    conflicting: list[str]
    first: list[str]


def survey(clusters: Place) -> ListedClusters:
    """Counts the rows to list of a file of clusters, and names those that may have previews."""
    rows, leading = 0, LeadingClusters(_PREVIEWED_CLUSTERS)
    for table in read_batches(clusters):
        rows += pc.sum(_is_listed(table)).as_py()
        leading.add(table["kept_id"].combine_chunks(), table["conflict"].combine_chunks())
    return ListedClusters(rows, leading.conflicting, leading.first)


def previewed_clusters(surveys: Iterable[ListedClusters]) -> list[str]:
    """The kept ids of the clusters that have previews."""
    leading = LeadingClusters(_PREVIEWED_CLUSTERS)
    for one in surveys:
        leading.merge(one.conflicting, one.first)
    return leading.chosen()


def parts_to_write(surveys: Sequence[ListedClusters], options: PreprocessOptions) -> int:
    """Number of files of the duplicates; none without a cluster.

    One may have no row: that of clusters whose records were only read once more.
    """
    if not any(one.first for one in surveys):
        return 0
    return 1 if options.duplicates_in_one else num_parts(sum(one.rows for one in surveys))


def list_rows(
    clusters: Place,
    previewed: Sequence[str],
    previews_of: Callable[[IntArray], Iterable[bytes | None]],
    value_of: Callable[[IntArray], npt.NDArray[Value]],
    dtype: type[Value],
) -> Iterator[tuple[pa.Table, npt.NDArray[Value]]]:
    """Yields the rows of a file of clusters, in its order; none of them is in the shards.

    The other value has what is known of the kept record of each row; -1 if the whole cluster is
    left out, or if that record is not in this build. Then `split` has its split in the set.

    Args:
        clusters: The file.
        previewed: Kept ids of the clusters with previews.
        previews_of: Makes previews of some records.
        value_of: What is known of some kept records.
        dtype: The type of that.
    """
    values = _values_of_clusters(clusters, value_of, dtype)
    wanted = pa.array(previewed, pa.string())
    for table, cluster, place in _numbered(clusters):
        listed = np.asarray(_is_listed(table).to_numpy(), bool)
        shown = listed & pc.is_in(table["kept_id"], value_set=wanted).to_numpy()
        rows = np.flatnonzero(shown & (place < _SHOWN_PER_CLUSTER))
        previews: list[bytes | None] = [None] * len(table)
        made = previews_of(int64(table["record"])[rows])
        for row, preview in zip(rows.tolist(), made, strict=True):
            previews[row] = preview
        split = pa.nulls(len(table), pa.string())
        if EARLIER_SPLIT.name in table.column_names:  # the kept record may be of an earlier one
            split = table[EARLIER_SPLIT.name]
        table = table.append_column("split", split)
        table = table.append_column("preview", pa.array(previews, pa.large_binary()))
        table = table.select(DUPLICATES_SCHEMA.names).cast(DUPLICATES_SCHEMA)
        yield table.filter(pa.array(listed)), values[cluster[listed]]


def with_splits(rows: pa.Table, split_of: npt.NDArray[np.int8], names: Sequence[str]) -> pa.Table:
    """Rows of the duplicates with the splits of their kept records.

    Args:
        rows: [n], whose `split` is null where it is not known.
        split_of: [n] int8, the split of each kept record; LEFT_OUT if there is none.
        names: Names of the splits, by their numbers.
    """
    numbers = pa.array(split_of.astype(np.int64), mask=split_of == LEFT_OUT)
    split = pc.coalesce(rows["split"], pa.array(names, pa.string()).take(numbers))
    return rows.set_column(rows.column_names.index("split"), "split", split)


def send_rows(workspace: Workspace, source: int, tables: Iterable[pa.Table], parts: int) -> bytes:
    """Sends rows of the duplicates to the workers that write their parts; returns the sizes.

    Args:
        workspace: The build.
        source: Number of the file of clusters that they come from.
        tables: The rows, in any order, with the column KEPT_RECORD if their splits follow.
        parts: Number of parts.
    """
    schema = LISTED_SCHEMA.append(_PART)
    with closing(RowSorter(workspace.scratch_file(), schema, (_PART.name, *CLUSTER_ORDER))) as rows:
        for table in tables:
            numbers = parts_of(table["kept_id"].combine_chunks(), parts)
            if KEPT_RECORD.name not in table.column_names:
                table = table.append_column(KEPT_RECORD, pa.nulls(len(table), pa.int64()))
            rows.append(table.append_column(_PART, pa.array(numbers)))
        pieces = table_pieces(rows.in_order(), _PART.name)
        return listed_rows(workspace).write_pieces(source, pieces, parts)


def listed_rows(workspace: Workspace) -> Exchange:
    """Rows of LISTED_SCHEMA, from the files of clusters to the parts of the duplicates."""
    return Exchange(workspace, LISTED)


def kept_splits(workspace: Workspace) -> Exchange:
    """Rows of KEPT_SPLIT, from the ranges of units to the parts of the duplicates."""
    return Exchange(workspace, KEPT_SPLITS)


def is_kept(table: pa.Table) -> pa.ChunkedArray:
    """[n] bool, the rows of clusters that are the kept record of their cluster."""
    return pc.and_not(pc.equal(table["record_id"], table["kept_id"]), table["dropped"])


def _is_listed(table: pa.Table) -> pa.ChunkedArray:
    """[n] bool, the rows of clusters whose record is not the one that is kept."""
    kept = is_kept(table)
    if EARLIER_SPLIT.name in table.column_names:
        again = pc.and_(  # the same record once more
            pc.equal(table["record_id"], table["kept_id"]), pc.is_valid(table[EARLIER_SPLIT.name])
        )
        kept = pc.or_(kept, again)
    return pc.invert(kept)


def _values_of_clusters(
    clusters: Place, value_of: Callable[[IntArray], npt.NDArray[Value]], dtype: type[Value]
) -> npt.NDArray[Value]:
    """[clusters] what is known of the kept record of each, or -1."""
    values = bytearray()
    for table, cluster, _ in _numbered(clusters):
        new = int(cluster[-1]) + 1 - len(values) // np.dtype(dtype).itemsize
        values += np.full(new, -1, dtype).tobytes()
        kept = np.asarray(is_kept(table).to_numpy(), bool)
        # A view, since a bytearray that has one cannot grow.
        np.frombuffer(values, dtype)[cluster[kept]] = value_of(int64(table["record"])[kept])
    return np.frombuffer(values, dtype)


def _numbered(clusters: Place) -> Iterator[tuple[pa.Table, IntArray, IntArray]]:
    """Rows with the number of the cluster of each, and its place among the rows of that cluster."""
    last, cluster, place = None, -1, 0
    for table in read_batches(clusters):
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
