"""Transforms at the ends of their parameters, and beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from reader.transforms import (
    Brightness,
    CenterCrop,
    Contrast,
    CutMix,
    HorizontalFlip,
    Hue,
    Mixup,
    RandAugment,
    RandomErasing,
    RandomResizedCrop,
    Rotation,
    Saturation,
    Scale,
    VerticalFlip,
)
from shard_format import UsageError
from tests.fixtures.proofs import examples

ALMOST_ONE = float(np.nextafter(np.float32(1), np.float32(0)))

numbers = st.floats(0, ALMOST_ONE, width=32)
# Few sizes, since a size is compiled once.
images = st.tuples(
    st.sampled_from([(1, 1), (1, 2), (30, 30), (2, 200)]), st.integers(0, 2**32 - 1)
).map(lambda drawn: np.random.default_rng(drawn[1]).integers(0, 256, (*drawn[0], 3)))

# Parameters at which a transform of float32 images changes nothing, whatever is drawn.
IDENTITIES = [
    Rotation(0),
    Scale(1, 1),
    Brightness(0),
    Contrast(0),
    Saturation(0),
    Hue(0),
    RandomErasing(probability=0),
]


@settings(max_examples=examples(30))
@given(images, st.lists(numbers, min_size=6, max_size=6))
def test_nothing_changes_at_no_strength(image: Any, draws: list[float]) -> None:
    image = image.astype(np.float32)
    for transform in IDENTITIES:
        random = tf.constant(draws[: transform.num_random], tf.float32)
        changed = transform({"image": tf.constant(image)}, random)["image"].numpy()
        np.testing.assert_allclose(changed, image, atol=1e-3, err_msg=repr(transform))


STRONGEST = [
    Rotation(180),
    Scale(0.1, 10),
    Brightness(1),
    Contrast(1),
    Saturation(1),
    Hue(0.5),
    RandomErasing(probability=1),
    RandAugment(3, 30),
    RandAugment(),
]


@settings(max_examples=examples(30))
@given(images, st.lists(numbers, min_size=6, max_size=6))
def test_values_and_shapes_stay_in_range_at_any_strength(image: Any, draws: list[float]) -> None:
    """Of images from 1 x 1 to very wide ones."""
    image = tf.constant(image, tf.float32)
    for transform in STRONGEST:
        random = tf.constant(draws[: transform.num_random], tf.float32)
        example = transform({"image": image, "label": 7}, random)
        changed = example["image"].numpy()
        assert changed.shape == image.shape and changed.dtype == np.float32, transform
        assert changed.min() >= 0 and changed.max() <= 255.001, transform
        assert example["label"] == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: CenterCrop(share=0),
            r"share is 0 in CenterCrop. Pass a number in \[0.01, 1\]",
        ),
        (
            lambda: RandomResizedCrop(min_area=0.9, max_area=0.5),
            "min_area .* exceeds max_area",
        ),
        (lambda: RandomResizedCrop(max_ratio=0.5), r"max_ratio is 0.5 .* a number in \[1, 10\]"),
        (lambda: HorizontalFlip(50), "probability is 50 in HorizontalFlip. Pass a number"),
        (lambda: VerticalFlip(-0.1), "is -0.1 in VerticalFlip"),
        (lambda: Rotation(360), r"max_degrees is 360 .* a number in \[0, 180\]"),
        (lambda: Rotation(True), "is True in Rotation"),
        (lambda: Rotation("15"), "is '15' in Rotation"),  # type: ignore[arg-type]
        (lambda: Rotation(float("nan")), "is nan in Rotation"),
        (lambda: Rotation(fill=256), r"fill is 256 .* a number in \[0, 255\]"),
        (lambda: Scale(0), "min_factor is 0 .* a number"),
        (lambda: Scale(2, 1), "min_factor 2 exceeds max_factor 1 in Scale"),
        (lambda: Brightness(1.5), "max_change is 1.5 in Brightness"),
        (lambda: Contrast(-1), "is -1 in Contrast"),
        (lambda: Saturation(2), "is 2 in Saturation"),
        (lambda: Hue(1), r"max_turn is 1 in Hue. Pass a number in \[0, 0.5\]"),
        (lambda: RandAugment(0), r"num_ops is 0 .* a number in \[1, 8\]"),
        (lambda: RandAugment(1.5), "num_ops is 1.5 .* Pass an integer"),  # type: ignore[arg-type]
        (lambda: RandAugment(2, 31), r"magnitude is 31 .* a number in \[0, 30\]"),
        (lambda: RandomErasing(fill="noise"), "fill is 'noise' .* Pass pixels, color or a number"),
        (lambda: RandomErasing(fill=300), "fill is 300 .* a number"),
        (lambda: RandomErasing(min_area=0.5), "min_area 0.5 exceeds max_area 0.4"),
        (lambda: Mixup(0), r"alpha is 0 in Mixup. Pass a number in \[0.01, 100\]"),
        (lambda: CutMix(probability=2), "is 2 in CutMix"),
    ],
)
def test_parameters_out_of_range(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
