"""Shingles and signatures: against sets of Python, and against what MinHash promises."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.dedup.text.candidates import LEAST_RECALL, band_keys, choose_bands
from beam_jobs.dedup.text.normalization import normalized_words
from beam_jobs.dedup.text.shingles import Shingles, jaccard, shingles
from beam_jobs.dedup.text.signatures import SIGNATURE, signatures
from beam_jobs.options import TextOptions
from shard_format import UsageError

words = st.lists(st.sampled_from("a b c d The cat, -- é 漢字".split()), max_size=12).map(" ".join)


def of(texts):
    return shingles(pa.array(texts, pa.large_string()))


def sets(found):
    return [set(part.tolist()) for part in np.split(found.hashes, found.begins[1:-1])]


def five_grams(text):
    parts = text.lower().replace(",", "").replace("-", " ").replace("漢字", "漢 字").split()
    return {tuple(parts[at : at + 5]) for at in range(max(1, len(parts) - 4))} if parts else set()


@given(st.lists(words, min_size=1, max_size=6))
def test_shingles_are_the_word_5_grams(texts):
    hashed, expected = sets(of(texts)), [five_grams(text) for text in texts]
    assert list(map(len, hashed)) == list(map(len, expected))
    for one in range(len(texts)):
        for two in range(len(texts)):
            assert len(hashed[one] & hashed[two]) == len(expected[one] & expected[two])


ALPHABET = "aB1-, \n\u00a0\u00bdé\u0301\u03c2Kﬁ漢か\u3099กำ\u0085한"


@given(st.lists(st.text(ALPHABET, max_size=20), min_size=2, max_size=5))
def test_words_are_those_of_whole_texts(texts):
    """They are normalized piece by piece, which must make no difference."""
    whole = normalized_words(pa.array(texts, pa.large_string()))
    spans = zip(whole.begins.tolist(), whole.begins[1:].tolist(), strict=False)
    folded = [whole.data[begin:end].tobytes().decode() for begin, end in spans]
    hashed, expected = sets(of(texts)), [five_grams(text) for text in folded]
    assert list(map(len, hashed)) == list(map(len, expected))
    assert len(hashed[0] & hashed[1]) == len(expected[0] & expected[1])


@given(st.lists(words, max_size=6), st.lists(words, max_size=6))
def test_each_document_by_itself(before, after):
    texts = ["one", *before, "the same document in every batch", *after]
    among = of(texts)
    alone = of(["the same document in every batch"])
    at = len(before) + 1
    assert sets(among)[at] == sets(alone)[0]
    assert np.array_equal(signatures(among)[at], signatures(alone)[0])


def test_blocks_change_nothing(monkeypatch, random_texts):
    texts = [*random_texts(40), "", "word " * 3000, *random_texts(5, seed=1)]
    whole = signatures(of(texts))
    monkeypatch.setattr("beam_jobs.dedup.text.signatures._BLOCK", 100)
    assert np.array_equal(signatures(of(texts)), whole)
    assert (whole[40] == np.iinfo(np.uint32).max).all()


def pairs_of(size, similarity, count, generator):
    """Sets of random hashes, two by two of one similarity."""
    common = round(size * similarity)
    parts = []
    for _ in range(count):
        union = generator.permutation(np.unique(generator.integers(0, 2**32, size, np.uint32)))
        middle = common + (len(union) - common) // 2
        parts.append(np.sort(union[:middle]))
        parts.append(np.sort(np.concatenate((union[:common], union[middle:]))))
    begins = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return Shingles(np.concatenate(parts), begins)


@pytest.mark.parametrize("similarity", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("size", [20, 300])
def test_places_agree_as_often_as_sets_overlap(size, similarity):
    both = pairs_of(size, similarity, 2000, np.random.default_rng(3))
    places = signatures(both)
    agree = (places[::2] == places[1::2]).mean(axis=1)
    deviation = math.sqrt(similarity * (1 - similarity) / SIGNATURE)
    # Five standard errors of the mean of 2,000; the spread of as many is known to 2 %.
    assert abs(agree.mean() - similarity) < 5 * deviation / math.sqrt(2000)
    assert agree.std() == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("threshold", [0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0])
def test_bands_find_what_is_at_the_threshold(threshold):
    cut = choose_bands(threshold)
    assert cut.bands * cut.rows <= SIGNATURE
    assert cut.recall(threshold) >= LEAST_RECALL
    places = signatures(pairs_of(200, threshold, 1000, np.random.default_rng(4)))
    met = np.zeros(1000, bool)
    for band in range(cut.bands):
        keys = band_keys(places, cut, band)
        met |= keys[::2] == keys[1::2]
    # Binomial: 0.99 of 1,000 is out by 0.016 once in 10**6 times.
    assert met.mean() > cut.recall(threshold) - 0.016


def test_a_threshold_that_cannot_be_met_is_refused():
    with pytest.raises(UsageError, match="--near-threshold"):
        TextOptions("source", "out", near_threshold=0.03)


@given(st.lists(st.sets(st.integers(0, 30)), min_size=2, max_size=8), st.data())
def test_jaccard_is_exact(sets, data):
    parts = [np.array(sorted(one), np.uint32) for one in sets]
    begins = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    row = st.integers(0, len(sets) - 1)
    pairs = data.draw(st.lists(st.tuples(row, row), min_size=1))
    similarities = jaccard(Shingles(np.concatenate(parts), begins), np.array(pairs, np.int64))
    for (one, two), value in zip(pairs, similarities.tolist(), strict=True):
        union = sets[one] | sets[two]
        assert value == (len(sets[one] & sets[two]) / len(union) if union else 0)
