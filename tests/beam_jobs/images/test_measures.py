"""Measures of images agree with their formulas, in NumPy and float64."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from beam_jobs.images.measures import measure

IMAGES = arrays.arrays(
    np.uint8, st.tuples(st.integers(1, 24), st.integers(1, 24), st.just(3)), fill=st.nothing()
)


@given(IMAGES)
def test_measures_are_those_of_the_formulas(image):
    red, green, blue = (image[..., channel].astype(float) for channel in range(3))
    first, second = red - green, (red + green) / 2 - blue
    spread = np.hypot(first.std(), second.std())
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(float)
    padded = np.pad(grey, 1, "reflect") if min(grey.shape) > 1 else None
    shares = np.unique(grey, return_counts=True)[1] / grey.size
    own = measure(image)
    if padded is not None:
        around = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
        assert own.sharpness == pytest.approx((around - 4 * grey).var(), abs=1e-6)
    assert own.brightness == pytest.approx(grey.mean() / 255)
    assert own.contrast == pytest.approx(grey.std() / 255, abs=1e-9)
    assert own.entropy == pytest.approx(-(shares * np.log2(shares)).sum(), abs=1e-9)
    colour = spread + 0.3 * np.hypot(first.mean(), second.mean())
    assert own.colourfulness == pytest.approx(colour, rel=1e-5, abs=1e-4)
    assert own.aspect == image.shape[1] / image.shape[0]


def test_a_blurred_image_is_less_sharp():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    assert measure(cv2.GaussianBlur(image, (0, 0), 2)).sharpness < measure(image).sharpness / 10
