"""Exact duplicates by ranges of the fingerprint.

The first 64 bits of every fingerprint go to the worker of their range, which sends back those that
occur again. Their records are described by the workers that have them, and joined to clusters by
the worker of the range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.columns import IntArray, int64, repeated
from beam_jobs.dedup.clusters import CLUSTER_ORDER, CLUSTER_SCHEMA, MEMBER_COLUMNS, Clusters
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
    sort_clusters,
    write_clusters,
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

_HEADS, _REPEATS, _MEMBERS, _DROPPED = "heads", "repeats", "members", "dropped"  # exchanges

_COLUMNS = {"fingerprint": FINGERPRINT, **MEMBER_COLUMNS}
# The rows of `repeated_rows`, with the range of fingerprints that each is in.
_RANGE = pa.field("range", pa.int64())
_DROPPED_ROW = np.dtype([("record", np.int64)])


def send_heads(plan: SpreadPlan, number: int, sidecars: Sidecars) -> bytes:
    """Sends the heads of all fingerprints of a range of units; returns the sizes."""
    with plan.partitions(HEADS, plan.ranges) as partitions:
        for rows in heads_of(sidecars):
            partitions.add(range_of(rows["head"], plan.ranges), rows)
        return plan.exchange(_HEADS).write(number, (rows.tobytes() for rows in partitions.take()))


def receive_heads(plan: SpreadPlan, sizes: list[bytes]) -> None:
    """Lets workers read the heads."""
    plan.exchange(_HEADS).finish(sizes)


def find_repeats(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends the heads that occur again to the ranges of units that have them."""
    begins = plan.begins
    parts = max(1, -(-plan.records // (plan.ranges * bounds.MOST_PARTITION_ROWS)))
    with (
        plan.partitions(HEADS, parts) as partitions,
        plan.partitions(HEADS, plan.ranges) as by_source,
    ):
        for source, received in plan.exchange(_HEADS).rows(number, plan.ranges, HEADS):
            rows = received.copy()
            rows["record"] += begins[source]
            partitions.add(range_of(rows["head"] // np.uint64(plan.ranges), parts), rows)
        for rows in partitions.take():
            repeats = rows[repeated(rows["head"])]
            sources = _source(begins, repeats["record"])
            repeats["record"] -= begins[sources]
            by_source.add(sources, repeats)
        slices = (rows.tobytes() for rows in by_source.take())
        return {"sizes": plan.exchange(_REPEATS).write(number, slices)}


def after_repeats(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Lets the workers that have the records read what is repeated."""
    plan.exchange(_REPEATS).finish([result["sizes"] for result in results])


def describe_repeats(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends what decides about repeated records of a range of units."""
    received = [rows for _, rows in plan.exchange(_REPEATS).rows(number, plan.ranges, HEADS)]
    rows = np.sort(np.concatenate([np.empty(0, HEADS), *received]), order="record")
    sidecars = UnitRange(plan, number).sidecars
    schema = repeats_schema(_COLUMNS).append(_RANGE)
    with closing(plan.sorter(schema, (_RANGE.name, *BY_HEAD))) as by_range:
        for start in range(0, len(rows), bounds.PLANNED_ROWS):
            part = rows[start : start + bounds.PLANNED_ROWS]
            by_range.append(_described(plan, number, sidecars, part))
        pieces = table_pieces(by_range.in_order(), _RANGE.name)
        return {"sizes": plan.exchange(_MEMBERS).write_pieces(number, pieces, plan.ranges)}


def _described(
    plan: SpreadPlan, number: int, sidecars: Sidecars, rows: StructuredArray
) -> pa.Table:
    table = described(sidecars, rows, _COLUMNS)
    confirm = plan.context.record_type.confirm
    if confirm is not None:
        digests = confirmed(sidecars, confirm, rows["record"])
        column = pa.FixedSizeBinaryArray.from_buffers(
            FINGERPRINT, len(rows), [None, pa.py_buffer(np.ascontiguousarray(digests))]
        )
        table = table.set_column(table.column_names.index("fingerprint"), "fingerprint", column)
    records = pa.array(rows["record"] + plan.begins[number])
    table = table.set_column(table.column_names.index("record"), "record", records)
    return table.append_column(_RANGE, pa.array(range_of(rows["head"], plan.ranges)))


def after_descriptions(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Lets the workers of ranges of the fingerprint read what decides."""
    plan.exchange(_MEMBERS).finish([result["sizes"] for result in results])


def join_clusters(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Writes the clusters of a range of fingerprints, and sends which records are left out."""
    options, number_of_clusters = plan.context.options, 0

    def counted(parts: Iterable[Clusters]) -> Iterator[Clusters]:
        nonlocal number_of_clusters
        for part in parts:
            number_of_clusters += part.number
            yield part

    with closing(plan.sorter(repeats_schema(_COLUMNS), BY_HEAD)) as rows:
        for table in plan.exchange(_MEMBERS).tables(number, plan.ranges):
            rows.append(table)
        # What must be confirmed has a digest of the content in place of the fingerprint.
        parts = exact_clusters(whole_runs(rows.in_order()), options, None)
        clusters = sort_clusters(counted(parts), plan.workspace, _file(plan, number))
    begins = plan.begins
    with plan.partitions(_DROPPED_ROW, plan.ranges) as by_source:
        for table in read_batches(_file(plan, number), ["record", "dropped"]):
            records = int64(table.filter(table["dropped"])["record"])
            sources = _source(begins, records)
            by_source.add(sources, (records - begins[sources]).view(_DROPPED_ROW))
        slices = (part.tobytes() for part in by_source.take())
        sizes = plan.exchange(_DROPPED).write(number, slices)
    return {
        "dropped": clusters.num_dropped,
        "conflicts": clusters.conflicts,
        "lost_to_conflict": clusters.lost_to_conflict,
        "clusters": number_of_clusters,
        "sha256": file_sha256(_file(plan, number)),
        "sizes": sizes,
    }


def after_clusters(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Sorts the clusters of all ranges for the commit."""
    plan.exchange(_DROPPED).finish([result["sizes"] for result in results])
    for name in ("dropped", "conflicts", "lost_to_conflict", "clusters"):
        setattr(plan.decisions, name, sum(result[name] for result in results))
    with closing(plan.sorter(CLUSTER_SCHEMA, CLUSTER_ORDER)) as rows:
        for number, result in enumerate(results):
            with dropping_damaged(lambda: None):
                plan.workspace.check_file(_file(plan, number), result["sha256"])
            for table in read_batches(_file(plan, number)):
                rows.append(table)
        write_clusters(plan.workspace, CLUSTER_SCHEMA, rows.in_order())


def no_clusters(plan: SpreadPlan) -> None:
    """Writes the clusters of a job that keeps duplicates."""
    write_clusters(plan.workspace, CLUSTER_SCHEMA, [])


def dropped_records(plan: SpreadPlan, number: int) -> IntArray:
    """[n] int64, the records of a range of units that are left out as duplicates."""
    received = plan.exchange(_DROPPED).rows(number, plan.ranges, np.int64)
    return np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in received)])


def _source(begins: IntArray, records: IntArray) -> IntArray:
    """[n] int64, the range of units that has each record."""
    return np.searchsorted(begins, records, side="right") - 1


def _file(plan: SpreadPlan, number: int) -> Place:
    return plan.workspace.plan / f"clusters-{number:05d}.arrow"
