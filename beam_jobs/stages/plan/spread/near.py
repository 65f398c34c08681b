"""Near duplicates by ranges: the record type finds the pairs, which are joined to clusters here.

Of exact duplicates, which are found first, only the first record is compared. The records of all
pairs are described by the workers that have them, and sent to the range of the root of their
component, where whole clusters are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import int64, run_starts
from beam_jobs.dedup.clusters import Clusters, NearPairs, find_clusters
from beam_jobs.dedup.exact import pairs_among, whole_runs
from beam_jobs.dedup.near_rounds import (
    PAIR,
    NearRound,
    NearSearch,
    NearTask,
    distinct_pairs,
    in_their_turn,
    pairs_of,
)
from beam_jobs.job_context import JobContext
from beam_jobs.stages.plan.find_duplicates import cluster_rules, member_columns, rows_of
from beam_jobs.stages.plan.spread.components import (
    ROOT,
    ROOTS,
    add_pairs,
    owner_of,
    part_of,
    parts_of,
)
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.stages.plan.spread.duplicates import (
    RANGE,
    RECORD,
    received_tables,
    records_for,
    repeats_by_head,
    send_tables,
    write_range,
)
from beam_jobs.stages.plan.spread.unit_range import UnitRange
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars

_EXACT_PAIRS, _REPEATED, _CLUSTERED = "exact-pairs", "repeated", "clustered"  # exchanges
_EXACT = -1  # as the turn of a pair

# Records of clusters, and pairs of them: a row whose other record is another one is a pair.
_PAIRS = (
    pa.field("root", pa.uint64()),
    pa.field("record", pa.int64()),
    pa.field("other", pa.int64()),
    pa.field("similarity", pa.float32()),
    pa.field("turn", pa.int16()),
)
_BY_ROOT = ("root", "record", "other")


def pair_exchanges(search: NearSearch) -> list[str]:
    """The exchanges by which pairs are sent to the range of units of their first record."""
    return [_EXACT_PAIRS, *search.pairs]


def pair_repeats(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Pairs the exact duplicates of a range of fingerprints."""
    sizes: dict[str, bytes] = {}
    begins = plan.begins
    with (
        repeats_by_head(plan, number) as repeats,
        plan.sent(_EXACT_PAIRS, number, PAIR, sizes) as sent,
        plan.sent(_REPEATED, number, RECORD, sizes) as repeated,
    ):
        for part in repeats:
            first, second = pairs_among(part, None).T
            pairs = pairs_of(first, second, 1, _EXACT)
            sent.add(plan.sources(pairs["first"]), pairs)
            sources = plan.sources(pairs["second"])
            repeated.add(sources, (pairs["second"] - begins[sources]).view(RECORD))
    return {"sizes": sizes}


def search_round(one: NearRound) -> Callable[[SpreadPlan, int], dict[str, Any]]:
    """A round of the record type as one of the plan."""

    def work(plan: SpreadPlan, number: int) -> dict[str, Any]:
        units = partial(_compared, plan, number)
        result = one.work(NearTask(plan, number, plan.decisions.noted, units))
        return {"sizes": result.sizes, "noted": result.noted}

    return work


def _compared(plan: SpreadPlan, number: int) -> Sidecars:
    """The sidecars of a range of units, without all but the first of exact duplicates."""
    repeated = np.sort(records_for(plan, _REPEATED, number))
    return UnitRange(plan, number).sidecars.without(repeated)


def after_search(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Keeps what the tasks noted for those of later rounds."""
    for name in results[0]["noted"]:
        plan.decisions.noted[name] = [result["noted"][name] for result in results]


def describe_clusters(search: NearSearch, plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends the records of a range of units that are in clusters, and their pairs, to its root."""
    exchanges = pair_exchanges(search)
    parts = max(parts_of(plan, exchanges, number, PAIR), parts_of(plan, [ROOTS], number, ROOT))
    sidecars = UnitRange(plan, number).sidecars
    with (
        plan.partitions(PAIR, parts) as pairs,
        plan.partitions(ROOT, parts) as roots,
        closing(plan.sorter(_schema(plan).append(RANGE), (RANGE.name, *_BY_ROOT))) as by_range,
    ):
        add_pairs(plan, exchanges, number, pairs, parts)
        for _, rows in plan.received(ROOTS, number, ROOT):
            roots.add(part_of(plan, number, rows["record"], parts), rows)
        for rooted, paired in zip(roots.take(), pairs.take(), strict=True):
            rooted = rooted[np.argsort(rooted["record"])]
            rooted = rooted[run_starts(rooted["record"])]  # some have it from several centres
            for table in _rows(plan, number, sidecars, rooted, distinct_pairs(paired)):
                by_range.append(table)
        return {"sizes": send_tables(plan, _CLUSTERED, number, by_range.in_order())}


def _rows(
    plan: SpreadPlan,
    number: int,
    sidecars: Sidecars,
    roots: StructuredArray,
    pairs: StructuredArray,
) -> Iterator[pa.Table]:
    """The rows of records and of pairs, some at a time."""
    begin, further = int(plan.begins[number]), list(member_columns(plan.context))
    for start in range(0, len(roots), bounds.PLANNED_ROWS):
        rows = roots[start : start + bounds.PLANNED_ROWS]
        members = sidecars.take(rows["record"] - begin, further)
        yield _table(
            plan,
            {
                "root": rows["root"],
                "record": rows["record"],
                "other": rows["record"],
                **{name: members[name] for name in further},
            },
        )
    root_of = roots["root"][np.searchsorted(roots["record"], pairs["first"])]
    for start in range(0, len(pairs), bounds.PLANNED_ROWS):
        part = slice(start, start + bounds.PLANNED_ROWS)
        columns = ("similarity", "turn")
        yield _table(
            plan,
            {
                "root": root_of[part],
                "record": pairs["first"][part],
                "other": pairs["second"][part],
                **{name: pairs[name][part] for name in columns},
            },
        )


def _schema(plan: SpreadPlan) -> pa.Schema:
    """The columns of records of clusters and of pairs."""
    members = member_columns(plan.context)
    return pa.schema([*_PAIRS, *map(pa.field, members, members.values())])


def _table(plan: SpreadPlan, columns: dict[str, Any]) -> pa.Table:
    """Rows of `_schema`, with the range that each is for; null where no column is given."""
    owner, schema = owner_of(columns["root"], plan.ranges), _schema(plan)
    given = {
        field.name: columns[field.name]
        if field.name in columns
        else pa.nulls(len(owner), field.type)
        for field in schema
    }
    return pa.table({**given, RANGE.name: owner}).cast(schema.append(RANGE))


def join_clusters(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Writes the clusters whose roots are in a range, and sends which records are left out."""
    with closing(plan.sorter(_schema(plan), _BY_ROOT)) as rows:
        for table in received_tables(plan, _CLUSTERED, number):
            rows.append(table)
        parts = _clusters(whole_runs(rows.in_order(), _BY_ROOT[0]), plan.context)
        return write_range(plan, number, parts)


def _clusters(tables: Iterable[pa.Table], context: JobContext) -> Iterator[Clusters]:
    """The clusters of each table, which has rows of whole ones."""
    for table in tables:
        is_member = pc.equal(table["record"], table["other"])
        members = table.filter(is_member)
        paired = table.filter(pc.invert(is_member))
        pairs = pairs_of(
            int64(paired["record"]),
            int64(paired["other"]),
            paired["similarity"].to_numpy(),
            int64(paired["turn"]),
        )
        exact = pairs["turn"] == _EXACT
        near = pairs[~exact]
        near = near[in_their_turn(near)]
        yield find_clusters(
            partial(rows_of, members),
            np.stack([pairs["first"][exact], pairs["second"][exact]], axis=1),
            NearPairs(np.stack([near["first"], near["second"]], axis=1), near["similarity"]),
            **cluster_rules(context),
        )
