"""The second look, and the windows it cuts."""

from __future__ import annotations

import numpy as np
import pytest

from beam_jobs.dedup.images.hash_format import EDGE_UNITS, LUMA_BYTES, LUMA_SIDE, VIEWS, WINDOWS
from beam_jobs.dedup.images.near_duplicates import DEFAULT_THRESHOLD
from beam_jobs.dedup.images.pair_verifier import (
    MAX_CUT,
    WEIGHT_SUM,
    PairVerifier,
    colour_differences,
    window_matrices,
)


def matrix(first, last):
    out = np.empty((1, LUMA_SIDE, LUMA_SIDE), np.float32)
    return window_matrices(np.array([[first, last]]), out)[0]


def test_the_whole_is_the_identity():
    np.testing.assert_array_equal(matrix(0, 0), WEIGHT_SUM * np.eye(LUMA_SIDE))


@pytest.mark.parametrize("first", [0, 1, 7, MAX_CUT])
@pytest.mark.parametrize("last", [0, 5, 16, MAX_CUT])
def test_a_window_is_stretched_to_the_full_side(first, last):
    weights = matrix(first, last)
    assert (weights >= 0).all()
    assert (weights.sum(axis=1) == WEIGHT_SUM).all()
    ramp = np.arange(LUMA_SIDE) + 0.5
    kept = (EDGE_UNITS - first - last) / EDGE_UNITS
    expected = first / EDGE_UNITS * LUMA_SIDE + kept * ramp
    # An area mean of pixels is a step function's, so half a pixel is the most it can be off.
    assert abs(weights @ ramp / WEIGHT_SUM - expected).max() <= 0.52


def test_all_sums_fit_into_float32(looks):
    """The promise that makes it exact: no sum of whole numbers reaches 2**24."""
    _, thumbnails = looks
    checkers = np.indices((LUMA_SIDE, LUMA_SIDE)).sum(axis=0) // 4 % 2 * 255
    extreme = thumbnails[:1].copy()
    extreme[0, :LUMA_BYTES] = checkers.ravel()
    fine = PairVerifier().fine_structure(np.concatenate([extreme, thumbnails[:40]]))
    assert (fine == np.rint(fine)).all()
    assert abs(fine).max() == 127
    assert 127**2 * LUMA_BYTES < 2**24
    assert 255 * 7**2 * 8**2 * 2 < 2**24
    assert 127 * WEIGHT_SUM**2 < 2**24


@pytest.mark.parametrize("view", range(VIEWS))
def test_a_crop_is_found_again_and_another_image_is_not(view, photographs, columns):
    top, bottom, left, right = (edge / EDGE_UNITS for edge in WINDOWS[view])
    originals = photographs[:20]
    crops = []
    for pixels in originals:
        height, width = pixels.shape[:2]
        rows = slice(round(top * height), round((1 - bottom) * height))
        crops.append(pixels[rows, round(left * width) : round((1 - right) * width)])
    _, wholes = columns(originals)
    _, parts = columns(crops)
    views = np.full(len(parts), view)
    values = PairVerifier().similarities(parts, wholes, views, DEFAULT_THRESHOLD)
    assert (values >= DEFAULT_THRESHOLD).mean() >= 0.95
    others = PairVerifier().similarities(
        parts, np.roll(wholes, 1, axis=0), views, DEFAULT_THRESHOLD
    )
    assert (others < DEFAULT_THRESHOLD).all()


def test_what_comes_out_does_not_depend_on_what_else_is_compared(looks):
    _, thumbnails = looks
    rows = np.random.default_rng(4).integers(0, len(thumbnails), (2, 150))
    views = np.random.default_rng(5).integers(0, VIEWS, 150)
    look = PairVerifier()
    left, right = thumbnails[rows[0]], thumbnails[rows[1]]
    together = look.similarities(left, right, views, 0.3)
    alone = [
        look.similarities(left[i : i + 1], right[i : i + 1], views[i : i + 1], 0.3)[0]
        for i in range(150)
    ]
    assert together.tolist() == alone


def test_the_same_image_is_alike_and_its_negative_is_not(looks):
    _, thumbnails = looks
    views = np.zeros(len(thumbnails), np.int64)
    look = PairVerifier()
    assert look.similarities(thumbnails, thumbnails, views, 0.9).tolist() == [1.0] * len(thumbnails)
    assert (look.similarities(thumbnails, 255 - thumbnails, views, 0.9) == 0).all()


def test_the_same_structure_in_another_colour_is_another_image(looks):
    _, thumbnails = looks
    recoloured = thumbnails.copy()
    recoloured[:, LUMA_BYTES:] ^= 0x40
    assert (colour_differences(thumbnails, recoloured) > 16).all()
    views = np.zeros(len(thumbnails), np.int64)
    assert not PairVerifier().similarities(thumbnails, recoloured, views, 0.5).any()


def test_a_blank_image_is_like_nothing(looks):
    _, thumbnails = looks
    blank = np.full_like(thumbnails, 128)
    views = np.zeros(len(thumbnails), np.int64)
    assert not PairVerifier().similarities(blank, thumbnails, views, 0.5).any()
    assert not PairVerifier().similarities(blank, blank, views, 0.5).any()
