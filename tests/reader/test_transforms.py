"""Every transform runs eagerly and inside tf.data: the two differ more often than one thinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from reader.transforms import AUGMENTATIONS, STAGES, TRANSFORMS
from reader.transforms.random_resized_crop import random_resized_crop

SIZES = ((48, 64), (64, 48), (31, 31), (1, 1), (9, 200))


def textured(height: int, width: int) -> Any:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 3 % 256, y * 3 % 256, (x + y) % 256], axis=-1).astype(np.uint8)


def both_ways(name: str, value: Any, random: list[float]) -> Any:
    """The transform's result, seen to be the same eagerly and in a tf.data map."""
    apply = TRANSFORMS[name].apply
    numbers = tf.constant(random, tf.float32, shape=[len(random)])
    eager = apply(tf.constant(value), numbers).numpy()
    dataset = tf.data.Dataset.from_tensors((tf.constant(value), numbers)).map(apply)
    mapped = next(iter(dataset)).numpy()
    assert mapped.dtype == eager.dtype and (mapped == eager).all()
    return eager


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_center_crop(height: int, width: int) -> None:
    side = min(height, width)
    expected = [(height - side) // 2, (width - side) // 2, side, side]
    assert both_ways("center_crop", np.int32([height, width]), []).tolist() == expected


def test_random_resized_crop() -> None:
    for random in np.random.default_rng(0).random((5, 4)).tolist():
        y, x, h, w = both_ways("random_resized_crop", np.int32([48, 64]), random)
        assert 0 <= y <= 48 - h and 0 <= x <= 64 - w and h * w > 0


@pytest.mark.parametrize(("height", "width"), [*SIZES, (4000, 1), (480, 640)])
def test_random_crops_lie_inside_and_have_the_promised_area(height: int, width: int) -> None:
    almost_one = float(np.nextafter(np.float32(1), np.float32(0)))
    randoms = [*np.random.default_rng(1).random((60, 4)).tolist(), [0] * 4, [almost_one] * 4]
    boxes = tf.map_fn(
        lambda random: random_resized_crop(tf.constant([height, width]), random),
        tf.constant(randoms, tf.float32),
        fn_output_signature=tf.int32,
    ).numpy()
    y, x, h, w = boxes.T
    assert (y >= 0).all() and (x >= 0).all() and (h >= 1).all() and (w >= 1).all()
    assert (y + h <= height).all() and (x + w <= width).all()
    if min(height, width) > 100:
        area = h * w / (height * width)
        assert area.min() > 0.079 and 0.4 < area.mean() < 0.6
        assert (np.abs(np.log(w / h)) < np.log(4 / 3) + 0.02).all()


def test_horizontal_flip() -> None:
    image = textured(5, 7)
    assert (both_ways("horizontal_flip", image, [0.49]) == image[:, ::-1]).all()
    assert (both_ways("horizontal_flip", image, [0.5]) == image).all()


def test_brightness_contrast() -> None:
    image = textured(6, 6).astype(np.float32)
    assert np.abs(both_ways("brightness_contrast", image, [0.5, 0.5]) - image).max() < 1e-3
    darker = both_ways("brightness_contrast", image, [0.0, 0.5])
    assert np.abs(darker - 0.6 * image).max() < 1e-3
    flatter = both_ways("brightness_contrast", image, [0.5, 0.0])
    assert np.abs(flatter - (0.6 * image + 0.4 * image.mean())).max() < 1e-3
    bright = both_ways("brightness_contrast", np.full((4, 4, 3), 250, np.float32), [0.9, 0.9])
    assert bright.max() == 255


def test_every_augmentation_crops_first_and_never_goes_back() -> None:
    for names in AUGMENTATIONS.values():
        stages = [STAGES.index(TRANSFORMS[name].stage) for name in names]
        assert stages == sorted(stages) and stages.count(0) == 1


def test_every_transform_is_tested_here() -> None:
    assert all(f"test_{name}" in " ".join(globals()) for name in TRANSFORMS)
