"""Components of pairs that are divided over ranges, against those of all pairs at once."""

from __future__ import annotations

import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.dedup.clusters import components
from beam_jobs.dedup.near_rounds import PAIR, distinct_pairs, in_their_turn, pairs_of
from beam_jobs.stages.plan.merge_levels import NO_MERGING
from beam_jobs.stages.plan.spread import components as spread
from beam_jobs.stages.plan.spread.decisions import Decisions, SpreadPlan
from beam_jobs.workspace import Workspace
from tests.fixtures.proofs import examples


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    made = Workspace(tmp_path_factory.mktemp("spread") / "set", None)
    made.create()
    return made


def finish(plan, work):
    """Does the tasks of a round, the last range first, and lets others read what these sent."""
    results = [work(plan, number) for number in reversed(range(plan.ranges))][::-1]
    for exchange in results[0]["sizes"]:
        plan.exchange(exchange).finish([one["sizes"][exchange] for one in results])
    return results


def roots_by_ranges(workspace, records, pairs):
    """[n] the smallest record that each record is connected to, and the edges left in each turn.

    Args:
        workspace: Folders for the files.
        records: Number of records of each range.
        pairs: [m, 2] pairs of different records.
    """
    merging = NO_MERGING._replace(ranges=len(records))
    plan = SpreadPlan(SimpleNamespace(workspace=workspace), merging, Decisions(records=records))

    def send(plan, number):
        sizes = {}
        with plan.sent("pairs", number, PAIR, sizes) as sent:
            rows = pairs_of(*pairs[number :: plan.ranges].T, 1)
            sent.add(plan.sources(rows["first"]), rows)
        return {"sizes": sizes}

    finish(plan, send)
    links = finish(plan, lambda *task: spread.link_pairs(["pairs"], *task))
    spread.after_edges(0)(plan, links)
    left = [sum(one["edges"] for one in links)]
    for turn in range(spread.TURNS):
        spread.after_hooks(plan, finish(plan, partial(spread.hook_nodes, turn)))
        contracted = finish(plan, partial(spread.contract, turn))
        if plan.decisions.turns is None:
            left.append(sum(one["edges"] for one in contracted))
        spread.after_edges(turn + 1)(plan, contracted)
    for turn in reversed(range(spread.TURNS)):
        finish(plan, partial(spread.name_roots, turn))
    finish(plan, spread.send_roots)
    roots = np.arange(sum(records))
    for number in range(plan.ranges):
        for _, rows in plan.received(spread.ROOTS, number, spread.ROOT):
            assert (plan.sources(rows["record"]) == number).all()
            roots[rows["record"]] = spread.records_of(rows["root"])
    # Named by a node that is the smallest of a hash: by the smallest record instead.
    _, named = np.unique(roots, return_inverse=True)
    first = np.full(named.max(initial=-1) + 1, len(roots))
    np.minimum.at(first, named, np.arange(len(roots)))
    return first[named], left


@st.composite
def graphs(draw):
    """(records of each range, pairs): sparse ones, and chains, which take most rounds."""
    records = draw(st.lists(st.integers(0, 20), min_size=2, max_size=6))
    count = sum(records)
    if count < 2:
        return records, np.zeros((0, 2), np.int64)
    order = np.array(draw(st.permutations(range(count))))
    chain = np.stack([order[:-1], order[1:]], axis=1)[: draw(st.integers(0, count))]
    node = st.integers(0, count - 1)
    others = draw(st.lists(st.tuples(node, node), max_size=30))
    pairs = np.concatenate([chain, np.array(others, np.int64).reshape(-1, 2)])
    return records, pairs[pairs[:, 0] != pairs[:, 1]]


@settings(max_examples=examples(60))
@given(graphs(), st.sampled_from((0, 3, 1 << 24)), st.sampled_from((2, 1 << 20)))
def test_they_are_those_of_all_pairs_at_once(workspace, graph, left_edges, part_rows):
    records, pairs = graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "LEFT_EDGES", left_edges)
        patch.setattr(bounds, "MOST_PARTITION_ROWS", part_rows)
        patch.setattr(bounds, "EXCHANGED_BYTES", 40)
        roots, _ = roots_by_ranges(workspace, records, pairs)
    np.testing.assert_array_equal(roots, components(sum(records), pairs))


def test_small_clusters_take_one_turn(workspace, monkeypatch):
    monkeypatch.setattr(bounds, "LEFT_EDGES", 0)
    order = np.random.default_rng(0).permutation(4000)
    pairs = order.reshape(-1, 2)
    roots, left = roots_by_ranges(workspace, [500] * 8, pairs)
    assert left == [2000, 0]
    np.testing.assert_array_equal(roots, components(4000, pairs))


def test_every_turn_halves_a_chain(workspace, monkeypatch):
    monkeypatch.setattr(bounds, "LEFT_EDGES", 0)
    order = np.random.default_rng(1).permutation(40_000)
    chain = np.stack([order[:-1], order[1:]], axis=1)
    roots, left = roots_by_ranges(workspace, [4000] * 10, chain)
    assert not roots.any()
    assert len(left) == 1 + spread.TURNS
    assert all(after < 0.55 * before for before, after in itertools.pairwise(left))


@given(st.lists(st.integers(0, 2**62), max_size=20))
def test_a_node_is_a_record(records):
    records = np.array(records, np.int64)
    np.testing.assert_array_equal(spread.records_of(spread.nodes_of(records)), records)


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 2, st.integers(0, 4)), max_size=40))
def test_pairs_count_in_their_turn(drawn):
    """Against one turn at a time, as one worker finds them."""
    rows = np.array([row for row in drawn if row[0] != row[1]], np.int64).reshape(-1, 3)
    pairs = distinct_pairs(pairs_of(rows[:, 0], rows[:, 1], np.ones(len(rows)), rows[:, 2]))
    ends = np.stack([pairs["first"], pairs["second"]], axis=1)
    expected = np.zeros(len(pairs), bool)
    for turn in range(5):
        roots = components(10, ends[expected])
        apart = roots[ends[:, 0]] != roots[ends[:, 1]]
        expected = expected | ((pairs["turn"] == turn) & apart)
    np.testing.assert_array_equal(in_their_turn(pairs), expected)
