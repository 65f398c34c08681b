"""Filters of --resize-filter: sizes, flat colours, and how near they are to Lanczos."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.images.resize import FILTERS
from beam_jobs.like import options_like
from beam_jobs.options import ImageOptions
from beam_jobs.record_types.image import ImageRecords
from foundation.storage import place_of
from shard_format import UsageError
from tests.fixtures.proofs import examples


def decibels(pixels, expected):
    return 10 * np.log10(255**2 / ((pixels.astype(float) - expected) ** 2).mean())


@pytest.mark.parametrize("factor", [1.1, 1.5, 2.0, 3.0, 4.9, 7.3])
def test_sharp_is_nearer_to_lanczos_than_area(photograph, factor):
    height, width = (round(side / factor) for side in photograph.shape[:2])
    small = {name: FILTERS[name](photograph, width, height) for name in FILTERS}
    near = {name: decibels(small[name], small["lanczos"]) for name in ("area", "sharp", "bicubic")}
    assert near["sharp"] > near["area"] + 0.5 and near["bicubic"] > near["area"]


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(FILTERS)), *(st.integers(1, 120) for _ in range(4)), st.data())
def test_a_flat_image_stays_flat(name, rows, columns, height, width, data):
    """Also one of a single row or column, and at any factor along each side."""
    colour = data.draw(st.tuples(*(st.integers(0, 255) for _ in range(3))))
    height, width = min(rows, height), min(columns, width)
    resized = FILTERS[name](np.full((rows, columns, 3), colour, np.uint8), width, height)
    assert resized.shape == (height, width, 3) and resized.dtype == np.uint8
    assert (resized == colour).all()


@pytest.mark.parametrize("name", FILTERS)
def test_the_source_is_left_alone_and_nothing_moves(photograph, name):
    """A mirrored image is shrunk to the mirrored result, within a level of rounding."""
    before = photograph.copy()
    one = FILTERS[name](photograph, 100, 133).astype(int)
    other = FILTERS[name](np.ascontiguousarray(photograph[:, ::-1]), 100, 133)[:, ::-1]
    assert abs(one - other).max() <= (3 if name == "sharp" else 1)
    np.testing.assert_array_equal(photograph, before)


def test_a_set_says_its_filter(build, make_images, tmp_path):
    """The filter of all earlier sets is left out, so that they keep their root hashes."""
    source = make_images(6, side=40)
    roots = {}
    for name in (None, "area", "bicubic"):
        given_options = {} if name is None else {"resize_filter": name}
        manifest = build(source, f"set-{name}", resize="shorter:30", **given_options).manifest
        roots[name] = manifest.root_hash
        assert manifest.config.get("resize_filter") == {None: "sharp", "area": None}.get(name, name)
        like = options_like(place_of(str(tmp_path / f"set-{name}")), ImageOptions)
        assert like["resize_filter"] == (name or "sharp")
    assert len(set(roots.values())) == 3


def test_a_set_of_an_earlier_version_was_shrunk_by_area(repository):
    golden = repository / "tests" / "golden" / "v1" / "set"
    like = options_like(place_of(str(golden)), ImageOptions)
    assert like["resize_filter"] == "area" and like["enlarge"] is True


def test_an_unknown_filter_is_refused():
    with pytest.raises(UsageError, match="--resize-filter"):
        ImageOptions(("in",), "out", resize_filter="lanczo")


def test_units_of_another_filter_are_not_reused():
    staged = [
        json.dumps(ImageRecords(ImageOptions(("in",), "out", resize_filter=name)).stage_options())
        for name in FILTERS
    ]
    assert len(set(staged)) == len(FILTERS)
