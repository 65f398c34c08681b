"""Near duplicates among images in rounds: the pairs that one worker finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.dedup.images import candidates
from beam_jobs.dedup.images.near_duplicates import near_duplicates
from beam_jobs.dedup.images.near_rounds import near_search
from benchmarks.table_sidecars import sidecars_of_looks
from tests.beam_jobs.dedup.images.test_near_pairs import synthetic
from tests.fixtures.near_rounds import pairs_by_ranges
from tests.fixtures.proofs import examples


def compare(looks, ends, folder, threshold=0.7):
    sidecars = sidecars_of_looks(*looks, folder)
    expected = near_duplicates(sidecars, threshold, 1)
    near = pairs_by_ranges(near_search(threshold, 1), sidecars, ends, folder)
    np.testing.assert_array_equal(near.pairs, expected.pairs)
    np.testing.assert_array_equal(near.similarity, expected.similarity)
    return expected


def crowded(count, seed):
    """Looks of images of which many are alike, equal or flat."""
    hashes, thumbnails = synthetic(count, seed)
    draw = np.random.default_rng(seed)
    again = draw.integers(0, count // 5, count)  # most of them occur several times
    hashes, thumbnails = (
        hashes[again],
        thumbnails[again] ^ draw.integers(0, 2, (count, 1), np.uint8),
    )
    hashes[: count // 20] = 0
    weak = draw.integers(0, count, count // 2)
    hashes[weak, 6] ^= draw.integers(0, 4, len(weak), np.uint8)
    return hashes, thumbnails


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_crowds_have_the_same_candidates(tmp_path, seed, ends):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "CROWD", 2)
        patch.setattr(candidates, "NEAREST", 2)
        for name in ("TABLE_ENTRIES", "EXCHANGED_BYTES", "PROBED_ROWS", "LEAST_PARTITION_ROWS"):
            patch.setattr(bounds, name, 100)
        near = compare(crowded(300, seed), [*sorted(ends), 300], tmp_path)
    assert len(near.pairs) > 100


def test_some_thousand_images(tmp_path):
    near = compare(synthetic(3000), [700, 700, 1900, 3000], tmp_path)
    assert len(near.pairs) >= 290


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_for_a_pair(count, tmp_path):
    hashes, thumbnails = synthetic(10)
    compare((hashes[:count], thumbnails[:count]), [0, count, count], tmp_path)


def test_buckets_of_more_images_than_32_bits_number():
    """The number of buckets grows with that of images, where one worker has no place for them."""
    for rows, bits in [(1, 8), (1 << 20, 24), (1 << 28, 26), (1 << 33, 31)]:
        codes = np.array([0, 2**64 - 1, 12345 << 40], np.uint64)
        assert (candidates.Buckets(0, rows).of(codes) < np.uint64(1 << bits)).all()
        assert candidates.Buckets(0, rows).of(codes).max() >= 1 << (bits - 4)


@given(st.integers(1, 1 << 34), st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_every_bucket_has_one_owner(rows, ranges, code):
    buckets = candidates.Buckets(1, rows)
    codes = np.array([code], np.uint64)
    owner = int(buckets.owner(codes, ranges)[0])
    assert int(buckets.coarse(codes)[0]) in buckets.owned(owner, ranges)
    ends = [buckets.owned(number, ranges) for number in (0, owner, ranges - 1)]
    assert ends[0].start == 0 and ends[-1].stop == len(buckets.all)
