"""Connected components of pairs of records, by ranges of a hash of the record.

Kiveris, Lattanzi, Mirrokni, Rastogi, Vassilvitskii: Connected Components in MapReduce and Beyond,
SOCC 2014. As there, every node is connected with the smallest of its neighbours in each turn; here
it is replaced by that one, and the next turn has the edges between those that are left. Of two
records, or more that are all alike, none is left then. Of a chain, for which it takes longest, half
of the nodes are left: those which are the smallest of three neighbours.

Records are nodes in the order of a hash, which is random for what is alike, and spreads the
smallest nodes over all ranges. An edge is sent to the ranges of both its nodes.

    link_pairs    ranges of units connect the pairs whose first record they have: trees are left
    hook_nodes    every node hooks onto the smallest one around it
    contract      nodes are replaced by those onto which they have hooked
    name_roots    what has hooked onto a node gets its root, the last turn first
    send_roots    every record gets the root of its node

Once the edges are few, the worker that decides connects what is left, in memory. Those of most jobs
are few at once, and turns are skipped then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from beam_jobs import bounds
from beam_jobs.columns import IntArray, run_starts
from beam_jobs.dedup.clusters import connected
from beam_jobs.dedup.near_rounds import PAIR
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.staging.reordering import Partitions, StructuredArray
from shard_format.keys import UInt64Array

# A node of the range that a row is sent to, and another one.
EDGE = np.dtype([("node", np.uint64), ("other", np.uint64)])
# A record, and the smallest node of its component.
ROOT = np.dtype([("record", np.int64), ("root", np.uint64)])

# Contractions at most; each leaves at most half of the nodes of a chain.
TURNS = 3

ROOTS = "roots"  # exchange
# Exchanges, but for `_LEFT` and `_HOOKS`: files of edges, each once, and of nodes that have hooked.
_LEFT, _HOOKS, _LEFT_ROOTS = "left-edges", "hooks", "left-roots"
_MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: Fibonacci hashing (Knuth, 6.4)
_INVERSE = pow(_MULTIPLIER, -1, 1 << 64)


def nodes_of(records: IntArray) -> UInt64Array:
    """[n] the node of each record: a bijection, in whose order neighbours are far apart."""
    return records.astype(np.uint64) * np.uint64(_MULTIPLIER)


def records_of(nodes: UInt64Array) -> IntArray:
    """[n] the record of each node."""
    return (nodes * np.uint64(_INVERSE)).astype(np.int64)


def _place(nodes: UInt64Array, ranges: int) -> tuple[IntArray, IntArray]:
    """([n] range of nodes, [n] place in it, below 2**32)."""
    scaled = (nodes >> np.uint64(32)).astype(np.int64) * ranges
    return scaled >> 32, scaled & 0xFFFFFFFF


def owner_of(nodes: UInt64Array, ranges: int) -> IntArray:
    """[n] the range of nodes that has each."""
    return _place(nodes, ranges)[0]


def parts_of(plan: SpreadPlan, exchanges: Iterable[str], number: int, dtype: np.dtype[Any]) -> int:
    """How many parts of what a range has received fit in memory, one at a time."""
    rows = sum(plan.exchange(name).count(number, plan.ranges, dtype) for name in exchanges)
    return max(1, -(-rows // bounds.MOST_PARTITION_ROWS))


def part_of(plan: SpreadPlan, number: int, records: IntArray, parts: int) -> IntArray:
    """[n] the part of each record of a range of units."""
    begin, end = plan.begins[number : number + 2].tolist()
    return (records - begin) * parts // max(1, end - begin)


def add_pairs(
    plan: SpreadPlan, exchanges: Sequence[str], number: int, by_record: Partitions, parts: int
) -> None:
    """Adds the pairs that a range of units has received to their parts, by the first record."""
    for name in exchanges:
        for _, pairs in plan.received(name, number, PAIR):
            by_record.add(part_of(plan, number, pairs["first"], parts), pairs)


def link_pairs(exchanges: Sequence[str], plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Connects the pairs whose first record is in a range of units.

    Args:
        exchanges: Those by which PAIR were sent to it.
        plan: The plan.
        number: Number of the range.
    """
    result: dict[str, Any] = {}
    with _sending_edges(plan, number, 0, result) as add:
        for pairs in _some_at_a_time(plan, exchanges, number):
            trees = _trees(np.stack([nodes_of(pairs["first"]), nodes_of(pairs["second"])], axis=1))
            add(np.concatenate([trees, trees[:, ::-1]]))
    return result


def _some_at_a_time(
    plan: SpreadPlan, exchanges: Sequence[str], number: int
) -> Iterator[StructuredArray]:
    """The pairs that a range of units has received."""
    held: list[StructuredArray] = []
    for name in exchanges:
        for _, pairs in plan.received(name, number, PAIR):
            held.append(pairs)
            if sum(map(len, held)) >= bounds.MOST_PARTITION_ROWS:
                yield np.concatenate(held)
                held.clear()
    yield np.concatenate([np.empty(0, PAIR), *held])


def hook_nodes(turn: int, plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Has the nodes of a range hook onto the smallest ones around them.

    Args:
        turn: How often nodes were contracted before.
        plan: The plan.
        number: Number of the range.
    """
    if plan.decisions.turns is not None:
        return {"sizes": {}}
    sizes: dict[str, bytes] = {}
    checksums: dict[str, str] = {}
    parts = parts_of(plan, [_edges(turn)], number, EDGE)
    with (
        plan.writing_rows(_HOOKS, number, checksums) as hooks,
        plan.sent(_hooked(turn), number, EDGE, sizes) as hooked,
        plan.sent(_halves(turn), number, EDGE, sizes) as halves,
        _by_node(plan, number, _edges(turn), parts) as edges,
    ):
        for rows in map(_distinct, edges):
            first = np.flatnonzero(run_starts(rows["node"]))
            least = np.minimum(rows["node"][first], rows["other"][first])
            own = rows["node"][first] != least
            hooks.write(_rows(rows["node"][first][own], least[own]).tobytes())
            _send(plan, hooked, least[own], rows["node"][first][own])
            # To the other end, what this end of the edge becomes.
            half = _rows(rows["other"], np.repeat(least, np.diff([*first.tolist(), len(rows)])))
            half = _distinct(half)
            _send(plan, halves, half["node"], half["other"])
    return {"sizes": sizes, "sha256": checksums[_HOOKS]}


def after_hooks(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Keeps the checksums of what has hooked."""
    if plan.decisions.turns is None:
        plan.decisions.noted[_HOOKS] = [result["sha256"] for result in results]


def contract(turn: int, plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Replaces the nodes of a range by those onto which they have hooked.

    Args:
        turn: See `hook_nodes`.
        plan: The plan.
        number: Number of the range.
    """
    if plan.decisions.turns is not None:
        return {"sizes": {}}
    result: dict[str, Any] = {}
    sha256 = plan.decisions.noted[_HOOKS][number]
    parts = parts_of(plan, [_halves(turn)], number, EDGE)
    with (
        _by_node(plan, number, _halves(turn), parts) as halves,
        plan.written_rows(_HOOKS, number, EDGE, sha256) as written,
        plan.partitions(EDGE, parts) as hooked,
        _sending_edges(plan, number, turn + 1, result) as add,
    ):
        for start in range(0, written.count, bounds.PLANNED_ROWS):
            rows = written.read(start, min(start + bounds.PLANNED_ROWS, written.count))
            hooked.add(_part(plan, rows["node"], parts), rows)
        for rows, hooks in zip(halves, hooked.take(), strict=True):
            rows = _distinct(_rows(_replaced(rows["node"], hooks), rows["other"]))
            ends = np.stack([rows["node"], rows["other"]], axis=1)
            add(ends[rows["node"] != rows["other"]])
    return result


def after_edges(turn: int) -> Callable[[SpreadPlan, list[dict[str, Any]]], None]:
    """What decides after so many turns: connects the edges that are left, if they are few."""

    def decide(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
        if plan.decisions.turns is not None:
            return
        few = sum(result["edges"] for result in results) <= bounds.LEFT_EDGES
        if few or turn == TURNS:  # more of them take more memory
            _connect_left(plan, [result["sha256"] for result in results])
            plan.decisions.turns = turn

    return decide


def _connect_left(plan: SpreadPlan, sha256: list[str]) -> None:
    """Connects the edges of all ranges, and sends the roots of their nodes."""
    trees = np.zeros((0, 2), np.uint64)
    for number, checksum in enumerate(sha256):
        with plan.written_rows(_LEFT, number, EDGE, checksum) as written:
            for start in range(0, written.count, bounds.MOST_PARTITION_ROWS):
                stop = min(start + bounds.MOST_PARTITION_ROWS, written.count)
                rows = written.read(start, stop)
                ends = np.stack([rows["node"], rows["other"]], axis=1)
                trees = _trees(np.concatenate([trees, ends]))
    sizes: dict[str, bytes] = {}
    with plan.sent(_LEFT_ROOTS, 0, EDGE, sizes) as sent:
        _send(plan, sent, *trees.T)
    plan.exchange(_LEFT_ROOTS).finish([sizes[_LEFT_ROOTS]])


def name_roots(turn: int, plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends the roots of the nodes of a range to those that have hooked onto them.

    Args:
        turn: In which turn; the later ones are done.
        plan: The plan.
        number: Number of the range.
    """
    turns = plan.decisions.turns or 0
    if turn >= turns:
        return {"sizes": {}}
    sizes: dict[str, bytes] = {}
    parts = parts_of(plan, [_hooked(turn)], number, EDGE)
    with (
        _by_node(plan, number, _hooked(turn), parts) as hooked,
        _named(plan, number, range(turn + 1, turns), parts) as named,
        plan.sent(_names(turn), number, EDGE, sizes) as sent,
    ):
        for rows, roots in zip(hooked, named, strict=True):
            _send(plan, sent, rows["other"], _replaced(rows["node"], roots))
    return {"sizes": sizes}


def send_roots(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends the roots of the nodes of a range to the ranges of units that have the records."""
    sizes: dict[str, bytes] = {}
    parts = parts_of(plan, [_edges(0)], number, EDGE)
    with (
        _by_node(plan, number, _edges(0), parts) as edges,
        _named(plan, number, range(plan.decisions.turns or 0), parts) as named,
        plan.sent(ROOTS, number, ROOT, sizes) as sent,
    ):
        for rows, roots in zip(edges, named, strict=True):
            nodes = np.unique(rows["node"])
            rooted = np.empty(len(nodes), ROOT)
            rooted["record"], rooted["root"] = records_of(nodes), _replaced(nodes, roots)
            sent.add(plan.sources(rooted["record"]), rooted)
    return {"sizes": sizes}


def _edges(turn: int) -> str:
    """The exchange of the edges that are left after so many turns."""
    return f"edges-{turn}"


def _hooked(turn: int) -> str:
    """The exchange by which nodes learn what has hooked onto them."""
    return f"hooked-{turn}"


def _halves(turn: int) -> str:
    """The exchange of edges of which one end is contracted."""
    return f"halves-{turn}"


def _names(turn: int) -> str:
    """The exchange of nodes that have hooked in a turn, and their roots."""
    return f"names-{turn}"


@contextmanager
def _sending_edges(
    plan: SpreadPlan, number: int, turn: int, result: dict[str, Any]
) -> Iterator[Callable[[UInt64Array], None]]:
    """Takes edges [n, 2] for the ranges of their first ends, each in both directions.

    They also go to a file, once, for the worker that decides.

    Args:
        plan: The plan.
        number: The range that has them.
        turn: After which turn.
        result: Gets what the task returns, once they are written.
    """
    sizes: dict[str, bytes] = {}
    checksums: dict[str, str] = {}
    count = 0
    with (
        plan.sent(_edges(turn), number, EDGE, sizes) as sent,
        plan.writing_rows(_LEFT, number, checksums) as left,
    ):

        def add(ends: UInt64Array) -> None:
            nonlocal count
            _send(plan, sent, *ends.T)
            once = ends[ends[:, 0] > ends[:, 1]]
            left.write(_rows(*once.T).tobytes())
            count += len(once)

        yield add
    result |= {"sizes": sizes, "edges": count, "sha256": checksums[_LEFT]}


def _send(plan: SpreadPlan, sent: Partitions, nodes: UInt64Array, others: UInt64Array) -> None:
    """Sends rows of EDGE to the ranges of their nodes."""
    sent.add(owner_of(nodes, plan.ranges), _rows(nodes, others))


def _rows(nodes: UInt64Array, others: UInt64Array) -> StructuredArray:
    """[n] EDGE."""
    rows = np.empty(len(nodes), EDGE)
    rows["node"], rows["other"] = nodes, others
    return rows


def _distinct(rows: StructuredArray) -> StructuredArray:
    """Every row of EDGE once; sorted."""
    rows = rows[np.lexsort((rows["other"], rows["node"]))]
    return rows[run_starts(rows["node"], rows["other"])]


def _trees(ends: UInt64Array) -> UInt64Array:
    """[k, 2] an edge from every node but the smallest of its component to that one."""
    nodes, roots = connected(ends)
    apart = nodes != roots
    return np.stack([nodes[apart], roots[apart]], axis=1)


def _replaced(nodes: UInt64Array, rows: StructuredArray) -> UInt64Array:
    """[n] the `other` of each node in `rows`, of EDGE; a node without a row stays as it is."""
    if not len(rows):
        return nodes
    rows = rows[np.argsort(rows["node"])]
    at = np.minimum(np.searchsorted(rows["node"], nodes), len(rows) - 1)
    return np.where(rows["node"][at] == nodes, rows["other"][at], nodes)


def _part(plan: SpreadPlan, nodes: UInt64Array, parts: int) -> IntArray:
    """[n] the part of each node of a range."""
    return _place(nodes, plan.ranges)[1] * parts >> 32


@contextmanager
def _by_node(
    plan: SpreadPlan, number: int, exchange: str, parts: int
) -> Iterator[Iterator[StructuredArray]]:
    """The rows of EDGE that a range has received, of some nodes at a time."""
    with plan.partitions(EDGE, parts) as by_node:
        for _, rows in plan.received(exchange, number, EDGE):
            by_node.add(_part(plan, rows["node"], parts), rows)
        yield by_node.take()


@contextmanager
def _named(
    plan: SpreadPlan, number: int, turns: Iterable[int], parts: int
) -> Iterator[Iterator[StructuredArray]]:
    """The nodes of a range and their roots, by rows of EDGE; what has none is a root.

    They were left at the end, or have hooked in one of the turns.
    """
    with plan.partitions(EDGE, parts) as by_node:
        for _, rows in plan.exchange(_LEFT_ROOTS).rows(number, 1, EDGE):
            by_node.add(_part(plan, rows["node"], parts), rows)
        for turn in turns:
            for _, rows in plan.received(_names(turn), number, EDGE):
                by_node.add(_part(plan, rows["node"], parts), rows)
        yield by_node.take()
