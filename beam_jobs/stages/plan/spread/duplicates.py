"""Exact duplicates by ranges of the fingerprint.

The first 64 bits of every fingerprint go to the worker of their range, which sends back those that
occur again. Their records are described by the workers that have them, and joined to clusters by
the worker of the range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import IntArray, int64, repeated
from beam_jobs.dedup.clusters import Clusters
from beam_jobs.dedup.exact import (
    BY_HEAD,
    FINGERPRINT,
    HEADS,
    described,
    heads_of,
    range_of,
    repeats_schema,
    whole_runs,
)
from beam_jobs.stages.plan.find_duplicates import (
    confirmed,
    exact_clusters,
    member_columns,
    sort_clusters,
)
from beam_jobs.stages.plan.list_duplicates import (
    ListedClusters,
    is_kept,
    parts_to_write,
    previewed_clusters,
    survey,
)
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.stages.plan.spread.unit_range import UnitRange
from beam_jobs.staging.exchange import table_pieces
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import read_batches
from foundation.storage import Place
from shard_format import file_sha256

_HEADS, _REPEATS, _MEMBERS, _OUTCOMES = "heads", "repeats", "members", "outcomes"  # exchanges

# The range that a row of a table is for.
RANGE = pa.field("range", pa.int64())
# A record of a range of units, by its number there.
RECORD = np.dtype([("record", np.int64)])
# What is decided about a record: it is dropped, or kept in place of others.
_OUTCOME = np.dtype([("record", np.int64), ("dropped", np.bool_)])


def send_fingerprints(plan: SpreadPlan, number: int, sidecars: Sidecars) -> dict[str, bytes]:
    """Sends the heads of all fingerprints of a range of units; returns the sizes."""
    return send_heads(plan, _HEADS, number, heads_of(sidecars))


def send_heads(
    plan: SpreadPlan, exchange: str, number: int, heads: Iterable[StructuredArray]
) -> dict[str, bytes]:
    """Sends rows of HEADS of a range of units to those of their hashes; returns the sizes."""
    sizes: dict[str, bytes] = {}
    with plan.sent(exchange, number, HEADS, sizes) as partitions:
        for rows in heads:
            partitions.add(range_of(rows["head"], plan.ranges), rows)
    return sizes


def find_repeats(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends the heads that occur again to the ranges of units that have them."""
    sizes: dict[str, bytes] = {}
    begins = plan.begins
    with plan.sent(_REPEATS, number, HEADS, sizes) as by_source:
        for rows in received_heads(plan, _HEADS, number):
            repeats = rows[repeated(rows["head"])]
            sources = plan.sources(repeats["record"])
            repeats["record"] -= begins[sources]
            by_source.add(sources, repeats)
    return {"sizes": sizes}


def received_heads(plan: SpreadPlan, exchange: str, number: int) -> Iterator[StructuredArray]:
    """Rows of HEADS of a range of hashes, with numbers in the corpus, some at a time.

    All with the same hash come at once.
    """
    parts = max(1, -(-plan.records // (plan.ranges * bounds.MOST_PARTITION_ROWS)))
    with plan.partitions(HEADS, parts) as partitions:
        for source, received in plan.received(exchange, number, HEADS):
            rows = received.copy()
            rows["record"] += plan.begins[source]
            partitions.add(range_of(rows["head"] // np.uint64(plan.ranges), parts), rows)
        yield from partitions.take()


def describe_repeats(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends what decides about repeated records of a range of units."""
    received = [rows for _, rows in plan.received(_REPEATS, number, HEADS)]
    rows = np.sort(np.concatenate([np.empty(0, HEADS), *received]), order="record")
    sidecars = UnitRange(plan, number).sidecars
    schema = repeats_schema(_columns(plan)).append(RANGE)
    with closing(plan.sorter(schema, (RANGE.name, *BY_HEAD))) as by_range:
        for start in range(0, len(rows), bounds.PLANNED_ROWS):
            part = rows[start : start + bounds.PLANNED_ROWS]
            by_range.append(_described(plan, number, sidecars, part))
        return {"sizes": send_tables(plan, _MEMBERS, number, by_range.in_order())}


def _described(
    plan: SpreadPlan, number: int, sidecars: Sidecars, rows: StructuredArray
) -> pa.Table:
    table = described(sidecars, rows, _columns(plan))
    confirm = plan.context.record_type.confirm
    if confirm is not None:
        digests = confirmed(sidecars, confirm, rows["record"])
        column = pa.FixedSizeBinaryArray.from_buffers(
            FINGERPRINT, len(rows), [None, pa.py_buffer(np.ascontiguousarray(digests))]
        )
        table = table.set_column(table.column_names.index("fingerprint"), "fingerprint", column)
    records = pa.array(rows["record"] + plan.begins[number])
    table = table.set_column(table.column_names.index("record"), "record", records)
    return table.append_column(RANGE, pa.array(range_of(rows["head"], plan.ranges)))


def _columns(plan: SpreadPlan) -> dict[str, pa.DataType]:
    """What decides about repeated records; members with near duplicates are described later."""
    near = plan.context.options.dedup == "near"
    return {"fingerprint": FINGERPRINT, **({} if near else member_columns(plan.context))}


def send_tables(
    plan: SpreadPlan, exchange: str, number: int, tables: Iterable[pa.Table]
) -> dict[str, bytes]:
    """Sends rows, which are in the order of RANGE, without it; returns the sizes."""
    pieces = table_pieces(tables, RANGE.name)
    return {exchange: plan.exchange(exchange).write_pieces(number, pieces, plan.ranges)}


def received_tables(plan: SpreadPlan, exchange: str, number: int) -> Iterator[pa.Table]:
    """The rows for a range."""
    yield from plan.exchange(exchange).tables(number, plan.ranges)


@contextmanager
def repeats_by_head(plan: SpreadPlan, number: int) -> Iterator[Iterator[pa.Table]]:
    """The repeated records of a range of fingerprints, those with one head together.

    What must be confirmed has a digest of the content in place of the fingerprint.
    """
    with closing(plan.sorter(repeats_schema(_columns(plan)), BY_HEAD)) as rows:
        for table in received_tables(plan, _MEMBERS, number):
            rows.append(table)
        yield whole_runs(rows.in_order())


def join_clusters(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Writes the clusters of a range of fingerprints, and sends what is decided about records."""
    with repeats_by_head(plan, number) as repeats:
        parts = exact_clusters(repeats, plan.context, None)
        return write_range(plan, number, parts)


def write_range(plan: SpreadPlan, number: int, parts: Iterable[Clusters]) -> dict[str, Any]:
    """Writes some whole clusters, and sends what is decided about their records."""
    number_of_clusters = 0

    def counted() -> Iterator[Clusters]:
        nonlocal number_of_clusters
        for part in parts:
            number_of_clusters += part.number
            yield part

    clusters = sort_clusters(counted(), plan.workspace, _file(plan, number))
    with plan.workspace.local_copy(_file(plan, number)) as path:
        return {
            "dropped": clusters.num_dropped,
            "conflicts": clusters.conflicts,
            "lost_to_conflict": clusters.lost_to_conflict,
            "clusters": number_of_clusters,
            "sha256": file_sha256(path),
            "sizes": _send_outcomes(plan, number, path),
            "listed": survey(path),
        }


def _send_outcomes(plan: SpreadPlan, number: int, clusters: Path) -> dict[str, bytes]:
    """Sends which records are left out, and which are kept in place of others."""
    sizes: dict[str, bytes] = {}
    begins = plan.begins
    with plan.sent(_OUTCOMES, number, _OUTCOME, sizes) as by_source:
        for table in read_batches(clusters, ["record_id", "kept_id", "dropped", "record"]):
            decided = table.filter(pc.or_(is_kept(table), table["dropped"]))
            records = int64(decided["record"])
            sources = plan.sources(records)
            rows = np.empty(len(decided), _OUTCOME)
            rows["record"] = records - begins[sources]
            rows["dropped"] = decided["dropped"].to_numpy()
            by_source.add(sources, rows)
    return sizes


def after_clusters(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Adds up the clusters of all ranges, and decides how they are listed."""
    decisions = plan.decisions
    for name in ("dropped", "conflicts", "lost_to_conflict", "clusters"):
        setattr(decisions, name, sum(result[name] for result in results))
    decisions.cluster_files = {
        _file(plan, number).name: result["sha256"] for number, result in enumerate(results)
    }
    listed = [ListedClusters(*result["listed"]) for result in results]
    decisions.previewed = previewed_clusters(listed)
    decisions.duplicates_parts = parts_to_write(listed, plan.context.options)


@contextmanager
def clusters_of(plan: SpreadPlan, number: int) -> Iterator[Path]:
    """Within this context, the file of the clusters of a range of fingerprints.

    Raises:
        InputError: It was damaged since it was written.
    """
    place = _file(plan, number)
    with plan.workspace.local_copy(place) as path:
        with dropping_damaged(lambda: None):  # every build writes it again
            plan.workspace.check_file(path, plan.decisions.cluster_files[place.name])
        yield path


def outcomes(plan: SpreadPlan, number: int) -> tuple[IntArray, IntArray]:
    """The records of a range of units that are left out, and those that are kept for others.

    Both are [n] int64, ascending.
    """
    received = plan.received(_OUTCOMES, number, _OUTCOME)
    rows = np.concatenate([np.zeros(0, _OUTCOME), *(own for _, own in received)])
    rows.sort(order="record")
    return rows["record"][rows["dropped"]], rows["record"][~rows["dropped"]]


def records_for(plan: SpreadPlan, exchange: str, number: int) -> IntArray:
    """[n] int64, the records that an exchange of RECORD has for a range of units."""
    received = (rows["record"] for _, rows in plan.received(exchange, number, RECORD))
    return np.concatenate([np.zeros(0, np.int64), *received])


def _file(plan: SpreadPlan, number: int) -> Place:
    return plan.workspace.plan / f"clusters-{number:05d}.arrow"
