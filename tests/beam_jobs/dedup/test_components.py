"""Connected components, against the textbook."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.dedup.clusters import NearPairs, components, whole_clusters


def naive(count, pairs):
    roots = list(range(count))

    def root(node):
        while roots[node] != node:
            node = roots[node]
        return node

    for first, second in pairs:
        low, high = sorted((root(first), root(second)))
        roots[high] = low
    return [root(node) for node in range(count)]


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 40))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node), max_size=60))


@given(graphs())
def test_it_agrees_with_one_pair_at_a_time(graph):
    count, pairs = graph
    roots = components(count, np.array(pairs, np.int64).reshape(-1, 2))
    assert roots.dtype == np.int64
    assert roots.tolist() == naive(count, pairs)


@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_pairs_and_of_their_ends_does_not_matter(graph, random):
    count, pairs = graph
    shuffled = [pair[::-1] if random.random() < 0.5 else pair for pair in pairs]
    random.shuffle(shuffled)
    first = components(count, np.array(pairs, np.int64).reshape(-1, 2))
    second = components(count, np.array(shuffled, np.int64).reshape(-1, 2))
    np.testing.assert_array_equal(first, second)


def test_nothing_is_paired_with_nothing():
    assert components(0, np.zeros((0, 2), np.int64)).tolist() == []
    assert components(3, np.zeros((0, 2), np.int64)).tolist() == [0, 1, 2]


def test_a_long_chain_in_random_order_is_one_component():
    nodes = np.random.default_rng(1).permutation(200_000)
    assert not components(len(nodes), np.stack([nodes[:-1], nodes[1:]], axis=1)).any()


def test_a_star_whose_centre_comes_last_is_one_component():
    leaves = np.arange(100_000)
    assert not components(100_001, np.stack([np.full_like(leaves, 100_000), leaves], axis=1)).any()


@given(graphs(), st.integers(1, 30))
def test_clusters_are_not_divided(graph, most):
    pairs = np.unique(np.sort(np.array(graph[1], np.int64).reshape(-1, 2)), axis=0)
    exact, near = pairs[::2], NearPairs(pairs[1::2], np.ones(len(pairs[1::2]), np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "CLUSTERED_RECORDS", most)
        parts = list(whole_clusters(exact, near))
    seen = [np.unique(np.concatenate([exact, near.pairs])) for exact, near in parts]
    assert len(np.concatenate([[], *seen])) == len(np.unique(pairs))
    again = [np.concatenate([exact, near.pairs]) for exact, near in parts]
    joined = np.unique(np.concatenate([np.zeros((0, 2), np.int64), *again]), axis=0)
    np.testing.assert_array_equal(joined, pairs)
