"""Candidates and pairs: against every pair of a corpus."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.dedup.clusters import components
from beam_jobs.dedup.text import near_duplicates
from beam_jobs.dedup.text.candidates import BUCKET_ROWS, LEADERS, NEIGHBOURS, bucket_pairs


def five_grams(text):
    words = text.split()
    return {tuple(words[at : at + 5]) for at in range(max(1, len(words) - 4))}


def all_pairs(texts, threshold):
    grams = [five_grams(text) for text in texts]
    similarities = {}
    for one, two in itertools.combinations(range(len(texts)), 2):
        similarity = len(grams[one] & grams[two]) / len(grams[one] | grams[two])
        if similarity >= threshold:
            similarities[one, two] = similarity
    return similarities


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_pairs_are_those_of_all_pairs(seed, threshold, random_texts, near_pairs):
    texts = random_texts(250, seed)
    near = near_pairs(texts, threshold)
    truth = all_pairs(texts, threshold)
    for pair, similarity in zip(near.pairs.tolist(), near.similarity.tolist(), strict=True):
        assert similarity == pytest.approx(truth[tuple(pair)], abs=1e-6)
    roots = components(len(texts), near.pairs)
    missed = [pair for pair in truth if roots[pair[0]] != roots[pair[1]]]
    assert len(truth) > 30
    assert len(missed) <= 0.05 * len(truth)


def test_permuting_rows_permutes_pairs(random_texts, near_pairs):
    texts = random_texts(200)
    order = np.random.default_rng(1).permutation(len(texts))
    near = near_pairs(texts, 0.8)
    moved = near_pairs([texts[row] for row in order], 0.8, threads=3)
    back = np.sort(order[moved.pairs], axis=1)
    by_row = np.lexsort((back[:, 1], back[:, 0]))
    assert np.array_equal(back[by_row], near.pairs)
    assert np.array_equal(moved.similarity[by_row], near.similarity)


def test_ranges_and_blocks_change_nothing(random_texts, near_pairs, monkeypatch):
    texts = random_texts(200)
    expected = near_pairs(texts, 0.8)
    for name, bound in {
        "MOST_PARTITION_ROWS": 60, "LEAST_PARTITION_ROWS": 30, "WAITING_ROWS": 50,
        "PLANNED_ROWS": 5, "VERIFIED_SHINGLES": 300, "LOOKED_UP_DOCUMENTS": 9, "REJECTED_PAIRS": 2,
    }.items():  # fmt: skip
        monkeypatch.setattr(bounds, name, bound)
    near = near_pairs(texts, 0.8)
    assert np.array_equal(near.pairs, expected.pairs)
    assert np.array_equal(near.similarity, expected.similarity)


def test_documents_without_words_are_near_to_none(near_pairs):
    near = near_pairs(["...", "!!!", "one two", "two one", "one two?"], 0.8)
    assert near.pairs.tolist() == [[2, 4]]


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 100))
def test_a_bucket_is_connected_by_few_pairs(keys, seed):
    generator = np.random.default_rng(seed)
    rows = np.zeros(len(keys), BUCKET_ROWS)
    rows["key"] = keys = np.array(keys, np.uint64)
    rows["tie_break"] = generator.integers(0, 5, len(keys))
    rows["fingerprint"] = generator.permutation(len(keys))
    pairs = bucket_pairs(rows)
    assert len({tuple(sorted(pair)) for pair in pairs.tolist()}) == len(pairs)
    assert np.array_equal(keys[pairs[:, 0]], keys[pairs[:, 1]])
    assert len(pairs) <= (LEADERS + NEIGHBOURS) * len(keys)
    roots = components(len(keys), pairs)
    for key in set(keys.tolist()):
        rows = np.flatnonzero(keys == key)
        assert len(set(roots[rows].tolist())) == 1
        if len(rows) <= LEADERS + NEIGHBOURS:
            inside = np.isin(pairs[:, 0], rows).sum()
            assert inside == len(rows) * (len(rows) - 1) // 2


def test_a_crowd_of_copies_costs_little(near_pairs, monkeypatch):
    """A thousand versions of one document, of which half a million pairs could be made."""
    base = [f"w{number}" for number in range(80)]
    texts = [" ".join([*base[: at % 80], f"x{at}", *base[at % 80 + 1 :]]) for at in range(1000)]
    compared = []
    original = near_duplicates.jaccard
    monkeypatch.setattr(
        near_duplicates,
        "jaccard",
        lambda sets, pairs: compared.append(len(pairs)) or original(sets, pairs),
    )
    near = near_pairs(texts, 0.8)
    assert len(set(components(1000, near.pairs).tolist())) == 1
    assert sum(compared) < 20 * len(texts)
