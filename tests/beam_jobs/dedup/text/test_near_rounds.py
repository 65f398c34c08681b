"""Near duplicates among documents in rounds: the pairs that one worker finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.dedup.text.near_duplicates import near_duplicates
from beam_jobs.dedup.text.near_rounds import near_search
from benchmarks.table_sidecars import sidecars_of_texts
from tests.fixtures.near_rounds import pairs_by_ranges
from tests.fixtures.proofs import examples


def versions(count, seed):
    """Documents in large and small clusters of many similarities, some without a word."""
    draw = np.random.default_rng(seed)
    words = np.array([f"word{number}" for number in range(200)])
    originals = draw.choice(words, (max(1, count // 12), 60))
    texts = []
    for _ in range(count):
        own = originals[min(len(originals) - 1, int(draw.exponential(3)))].copy()
        changed = draw.integers(0, 12)
        own[draw.integers(0, 60, changed)] = draw.choice(words, changed)
        texts.append(" ".join(own[: draw.integers(20, 61)]) if draw.random() > 0.05 else "...")
    return texts


def compare(texts, ends, folder, threshold):
    sidecars = sidecars_of_texts(pa.array(texts, pa.large_string()), folder, unit_rows=40)
    expected = near_duplicates(sidecars, threshold, 1)
    near = pairs_by_ranges(near_search(threshold, 1), sidecars, ends, folder)
    np.testing.assert_array_equal(near.pairs, expected.pairs)
    np.testing.assert_array_equal(near.similarity, expected.similarity)
    return expected


@settings(max_examples=examples(16), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 250), min_size=1, max_size=8),
    st.sampled_from((0.3, 0.5, 0.8, 1.0)),
)
def test_clusters_have_the_pairs_of_one_worker(tmp_path, seed, ends, threshold):
    """Those that it skips, because an earlier band connects them, do not count here either."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MOST_PARTITION_ROWS", "EXCHANGED_BYTES", "RECEIVED_CANDIDATES"):
            patch.setattr(bounds, name, 200)
        for name in ("VERIFIED_SHINGLES", "RECEIVED_SHINGLES"):
            patch.setattr(bounds, name, 400)
        near = compare(versions(250, seed), [*sorted(ends), 250], tmp_path, threshold)
    assert threshold == 1 or len(near.pairs) > 40


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_for_a_pair(count, tmp_path):
    compare(versions(count, 0), [0, count, count], tmp_path, 0.8)
