"""--near-threshold is a matter of --dedup near alone."""

from __future__ import annotations

import pytest

from beam_jobs.options import ImageOptions, TextOptions


@pytest.mark.parametrize("kind", [ImageOptions, TextOptions])
def test_the_threshold_counts_only_where_near_duplicates_are_found(kind):
    def config(dedup, **options):
        return kind("source", "out", dedup=dedup, **options).config()

    for dedup in ("exact", "off"):
        assert config(dedup, near_threshold=0.6) == config(dedup)
    assert config("near", near_threshold=0.6) != config("near")
    assert config("near", near_threshold=0.6)["near_threshold"] == 0.6
