"""Cleaning steps and the options of decoding: plain functions, no pipeline."""

from __future__ import annotations

import types
from fractions import Fraction

import numpy as np
import pytest

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.images.decode import DecodedImage
from beam_jobs.images.decode.base import parse_background
from beam_jobs.images.filters import STEPS, check_image, filter_options
from beam_jobs.images.filters.blank import luma_variance
from beam_jobs.options import ImageOptions
from shard_format import UsageError


def options(**changes):
    return types.SimpleNamespace(
        **({"min_side": None, "max_aspect": None, "blank": None} | changes)
    )


def image(width, height, pixels=None):
    if pixels is None:
        pixels = np.zeros((height, width, 3), np.uint8)
    return DecodedImage(pixels, "PNG", width, height)


def verdict(given, values):
    try:
        check_image(given, values)
    except Rejection as refusal:
        assert refusal.stage == FILTER
        return refusal.reason
    return "kept"


def gray(values):
    return np.repeat(np.array(values, np.uint8)[:, :, np.newaxis], 3, axis=2)


@pytest.mark.parametrize(
    ("change", "given", "expected"),
    [
        ({}, image(1, 1), "kept"),
        ({"min_side": 64}, image(64, 64), "kept"),
        ({"min_side": 64}, image(64, 63), "too-small"),
        ({"min_side": 64}, image(63, 900), "too-small"),
        ({"max_aspect": 3.0}, image(300, 100), "kept"),
        ({"max_aspect": 3.0}, image(301, 100), "too-elongated"),
        ({"max_aspect": 3.0}, image(100, 301), "too-elongated"),
        ({"max_aspect": 2.3}, image(230, 100), "kept"),  # 2.3 * 100 is below 230 as a float
        ({"max_aspect": 1.0}, image(5, 5), "kept"),
        ({"blank": 2.0}, image(4, 4), "blank"),
        ({"blank": 2.0}, image(2, 1, gray([[100, 103]])), "blank"),  # deviates by 1.5
        ({"blank": 1.5}, image(2, 1, gray([[100, 103]])), "kept"),
        ({"blank": 127.5}, image(2, 1, gray([[0, 255]])), "kept"),
        ({"min_side": 9, "max_aspect": 2.0, "blank": 9.0}, image(8, 1), "too-small"),
        ({"min_side": 1, "max_aspect": 2.0, "blank": 9.0}, image(8, 1), "too-elongated"),
    ],
)
def test_verdicts(change, given, expected):
    assert verdict(given, filter_options(options(**change))) == expected


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"min_side": 0}, "--min-side"),
        ({"max_aspect": 0.9}, "--max-aspect"),
        ({"max_aspect": float("nan")}, "--max-aspect"),
        ({"max_aspect": float("inf")}, "--max-aspect"),
        ({"blank": 0.0}, "--blank"),
        ({"blank": 128.0}, "--blank"),
    ],
)
def test_values_that_make_no_sense_are_reported(change, flag):
    with pytest.raises(UsageError, match=f"{flag} is "):
        ImageOptions("source", "out", **change)


def test_every_step_has_an_option():
    assert filter_options(options(min_side=3)) == {
        "min_side": 3,
        "max_aspect": None,
        "blank": None,
    }
    assert list(STEPS) == list(vars(options()))


def test_luma_is_exact_in_any_size():
    """Blocks add up, and the sum needs more than 53 bits' worth of luck."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (1500, 1100, 3), np.uint8)
    weights = np.array([19595, 38470, 7471], np.int64)
    luma = (pixels.astype(np.int64) @ weights + 32768) >> 16
    number = luma.size
    expected = Fraction(int((luma**2).sum()), number) - Fraction(int(luma.sum()), number) ** 2
    assert luma_variance(pixels) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("white", (255, 255, 255)), ("#000000", (0, 0, 0)), ("#10aBfF", (16, 171, 255))],
)
def test_backgrounds(text, expected):
    assert parse_background(text) == expected


@pytest.mark.parametrize("text", ["", "black", "#fff", "#12345g", "123456", "#1234567", "White"])
def test_a_wrong_background_is_reported(text):
    with pytest.raises(UsageError, match="--background is "):
        parse_background(text)


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"max_pixels": 0}, "--max-pixels"),
        ({"animated": "last"}, "--animated"),
        ({"time_limit": 0.0}, "--time-limit"),
        ({"time_limit": float("nan")}, "--time-limit"),
    ],
)
def test_wrong_decoding_options_are_reported(change, flag):
    with pytest.raises(UsageError, match=f"{flag} "):
        ImageOptions("source", "out", **change)
