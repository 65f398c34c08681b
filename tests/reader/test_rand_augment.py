"""RandAugment's operations against Pillow, which they are defined by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from reader.transforms import RandAugment, pillow
from reader.transforms.rand_augment import FILL, MAX_SHIFT, OPERATIONS
from tests.fixtures.proofs import examples

GREY = (int(FILL),) * 3


@st.composite
def make_images(draw: Any) -> Any:
    """Of many values or few, dark, light, or of one colour."""
    height, width = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    low = draw(st.integers(0, 255))
    high = draw(st.integers(low, 255))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return generator.integers(low, high + 1, (height, width, 3)).astype(np.uint8)


def photograph(samples: Any) -> Any:
    path = sorted((samples / "dress").glob("*-*.jpg"))[0]
    return np.asarray(Image.open(path).convert("RGB").resize((64, 64)))


@given(make_images())
def test_tables_are_those_of_pillow_to_the_bit(image: Any) -> None:
    tensor, theirs = tf.constant(image), Image.fromarray(image)
    assert (pillow.autocontrast(tensor).numpy() == np.asarray(ImageOps.autocontrast(theirs))).all()
    assert (pillow.equalize(tensor).numpy() == np.asarray(ImageOps.equalize(theirs))).all()
    for bits in range(1, 9):
        ours = pillow.posterize(tensor, bits).numpy()
        assert (ours == np.asarray(ImageOps.posterize(theirs, bits))).all()
    for threshold in (0, 1, 100, 255, 256):
        ours = pillow.solarize(tensor, threshold).numpy()
        assert (ours == np.asarray(ImageOps.solarize(theirs, threshold))).all()


@given(make_images(), st.floats(0, 3))
@settings(max_examples=examples(50))
def test_blends_are_those_of_pillow_within_one(image: Any, factor: float) -> None:
    tensor, theirs = tf.constant(image), Image.fromarray(image)
    for name in ("color", "contrast", "brightness", "sharpness"):
        ours = getattr(pillow, name)(tensor, factor).numpy().astype(int)
        expected = getattr(ImageEnhance, name.capitalize())(theirs).enhance(factor)
        # A rounding of the degenerate image that falls to the other side counts factor times.
        assert np.abs(ours - np.asarray(expected)).max() <= 1 + abs(1 - factor), name


def test_equalize_and_autocontrast_of_a_photograph(samples: Any) -> None:
    image = photograph(samples)
    for name in ("equalize", "autocontrast"):
        ours = getattr(pillow, name)(tf.constant(image)).numpy()
        expected = np.asarray(getattr(ImageOps, name)(Image.fromarray(image)))
        assert (ours == expected).all() and (ours != image).any()


AFFINE = {  # of Pillow, around the middle of an image of 64 pixels, at level 1 and sign 1
    "shear_x": (1, 0.3, -0.3 * 32, 0, 1, 0),
    "shear_y": (1, 0, 0, 0.3, 1, -0.3 * 32),
    "translate_x": (1, 0, MAX_SHIFT * 64, 0, 1, 0),
    "translate_y": (1, 0, 0, 0, 1, MAX_SHIFT * 64),
}


@pytest.mark.parametrize("name", [*AFFINE, "rotate"])
def test_warps_are_those_of_pillow(samples: Any, name: str) -> None:
    image = photograph(samples)
    ours = OPERATIONS[name](tf.constant(image), 1.0, tf.constant(1.0)).numpy()
    theirs = Image.fromarray(image)
    if name == "rotate":
        expected = theirs.rotate(30, fillcolor=GREY)
    else:
        expected = theirs.transform((64, 64), Image.Transform.AFFINE, AFFINE[name], fillcolor=GREY)
    # A pixel on the border of two may be either.
    assert (ours == np.asarray(expected)).all(axis=-1).mean() > 0.99


def drawn(name: str, direction: float = 0.9) -> list[float]:
    return [(list(OPERATIONS).index(name) + 0.5) / len(OPERATIONS), direction]


def test_rand_augment_draws_every_operation(samples: Any) -> None:
    """And applies them one after the other; eagerly as inside tf.data."""
    image = photograph(samples)
    transform = RandAugment(2, 9)
    randoms = [[*drawn(name, 0.1), *drawn("posterize")] for name in OPERATIONS]
    example = {"image": tf.constant(image, tf.float32)}
    dataset = tf.data.Dataset.from_tensor_slices(randoms)
    mapped = iter(dataset.map(lambda random: transform(example, random)))
    for name, random in zip(OPERATIONS, randoms, strict=True):
        eager = transform(example, tf.constant(random))["image"].numpy()
        changed = OPERATIONS[name](tf.constant(image), 0.9, tf.constant(-1.0))
        expected = OPERATIONS["posterize"](changed, 0.9, tf.constant(1.0))
        assert (eager == expected.numpy()).all(), name
        assert (next(mapped)["image"].numpy() == eager).all(), name


def test_operations_without_magnitude_change_nothing(samples: Any) -> None:
    image = photograph(samples)
    for name in set(OPERATIONS) - {"autocontrast", "equalize"}:
        random = tf.constant(drawn(name))
        changed = RandAugment(1, 0)({"image": tf.constant(image, tf.float32)}, random)["image"]
        assert (changed.numpy() == image).all(), name
        if name != "identity":
            changed = RandAugment(1, 5)({"image": tf.constant(image, tf.float32)}, random)["image"]
            assert (changed.numpy() != image).any(), name


def test_both_directions_and_their_end() -> None:
    image = np.random.default_rng(0).integers(60, 200, (32, 32, 3)).astype(np.float32)
    one, other = (
        RandAugment(1, 5)({"image": tf.constant(image)}, tf.constant(drawn("brightness", d)))[
            "image"
        ].numpy()
        for d in (0.49, 0.5)
    )
    assert one.mean() < image.mean() < other.mean()
    black = RandAugment(1, 30)({"image": tf.constant(image)}, tf.constant(drawn("brightness", 0.1)))
    assert (black["image"].numpy() == 0).all()
    shifted = RandAugment(1, 30)({"image": tf.constant(image)}, tf.constant(drawn("translate_x")))
    assert 0 < (shifted["image"].numpy() != FILL).all(axis=(0, 2)).sum() < 4
