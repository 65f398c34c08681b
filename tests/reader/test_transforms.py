"""Every transform runs eagerly and inside tf.data: the two differ more often than one thinks."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance

import reader
from reader.transforms import (
    AUGMENTATIONS,
    STAGES,
    TRANSFORMS,
    Brightness,
    CenterCrop,
    ChannelsFirst,
    Contrast,
    HorizontalFlip,
    Hue,
    RandomErasing,
    RandomResizedCrop,
    Rotation,
    Saturation,
    Scale,
    VerticalFlip,
)
from shard_format import UsageError

SIZES = ((48, 64), (64, 48), (31, 31), (1, 1), (9, 200))
ALMOST_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


def textured(height: int, width: int) -> Any:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 3 % 256, y * 3 % 256, (x + y) % 256], axis=-1).astype(np.uint8)


def noise(height: int, width: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.float32)


def both_ways(transform: Any, value: Any, random: list[float], key: str = "image") -> Any:
    """The transform's result, seen to be the same eagerly and in a tf.data map."""
    name = "box" if key == "size" else key
    assert len(random) == transform.num_random
    draws = tf.constant(random, tf.float32, shape=[len(random)])
    eager = transform({key: tf.constant(value)}, draws)[name].numpy()
    dataset = tf.data.Dataset.from_tensors((tf.constant(value), draws))
    dataset = dataset.map(lambda value, draws: transform({key: value}, draws)[name])
    mapped = next(iter(dataset)).numpy()
    assert mapped.dtype == eager.dtype and (mapped == eager).all()
    return eager


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_center_crop(height: int, width: int) -> None:
    side = min(height, width)
    expected = [(height - side) // 2, (width - side) // 2, side, side]
    assert both_ways(CenterCrop(), np.int32([height, width]), [], "size").tolist() == expected
    y, x, h, w = both_ways(CenterCrop(share=0.875), np.int32([height, width]), [], "size")
    assert h == w == max(1, round(0.875 * side))
    assert (y, x) == ((height - h) // 2, (width - w) // 2)


def test_random_resized_crop() -> None:
    for random in np.random.default_rng(0).random((5, 4)).tolist():
        y, x, h, w = both_ways(RandomResizedCrop(), np.int32([48, 64]), random, "size")
        assert 0 <= y <= 48 - h and 0 <= x <= 64 - w and h * w > 0


@pytest.mark.parametrize(("height", "width"), [*SIZES, (4000, 1), (480, 640)])
@pytest.mark.parametrize("least", [0.08, 0.5])
def test_random_crops_lie_inside_and_have_the_promised_area(
    height: int, width: int, least: float
) -> None:
    crop = RandomResizedCrop(min_area=least)
    randoms = [*np.random.default_rng(1).random((60, 4)).tolist(), [0] * 4, [ALMOST_ONE] * 4]
    boxes = tf.map_fn(
        lambda random: crop({"size": tf.constant([height, width])}, random)["box"],
        tf.constant(randoms, tf.float32),
        fn_output_signature=tf.int32,
    ).numpy()
    y, x, h, w = boxes.T
    assert (y >= 0).all() and (x >= 0).all() and (h >= 1).all() and (w >= 1).all()
    assert (y + h <= height).all() and (x + w <= width).all()
    if min(height, width) > 100:
        area = h * w / (height * width)
        assert area.min() > least - 0.001
        assert 0.2 < (area.mean() - least) / (1 - least) < 0.6
        assert (np.abs(np.log(w / h)) < np.log(4 / 3) + 0.02).all()


def test_horizontal_flip() -> None:
    image = textured(5, 7)
    assert (both_ways(HorizontalFlip(), image, [0.49]) == image[:, ::-1]).all()
    assert (both_ways(HorizontalFlip(), image, [0.5]) == image).all()
    assert (both_ways(HorizontalFlip(1), image, [ALMOST_ONE]) == image[:, ::-1]).all()
    assert (both_ways(HorizontalFlip(0), image, [0.0]) == image).all()


def test_vertical_flip() -> None:
    image = textured(5, 7)
    assert (both_ways(VerticalFlip(), image, [0.49]) == image[::-1]).all()
    assert (both_ways(VerticalFlip(), image, [0.5]) == image).all()


@pytest.mark.parametrize("degrees", [-180.0, -90.0, -20.0, 7.5, 90.0])
def test_rotation(degrees: float) -> None:
    """As Pillow turns, away from the border, which it interpolates in another way."""
    image = np.kron(noise(8, 8), np.ones((4, 4, 1))).astype(np.float32)
    turned = both_ways(Rotation(180), image, [0.5 + degrees / 360])
    theirs = Image.fromarray(image.astype(np.uint8)).rotate(degrees, Image.Resampling.BILINEAR)
    middle = (slice(8, 24), slice(8, 24))
    assert np.abs(turned[middle] - np.asarray(theirs, np.float32)[middle]).max() <= 1.5
    if degrees % 90:
        assert (turned[0, 0] == 128).all()


def test_rotation_of_a_quarter_is_exact() -> None:
    image = noise(6, 6)
    turned = both_ways(Rotation(180), image, [0.75])
    np.testing.assert_allclose(turned, np.rot90(image), atol=0.1)


def test_scale() -> None:
    image = np.kron(noise(4, 4), np.ones((8, 8, 1))).astype(np.float32)
    larger = both_ways(Scale(1, 2), image, [ALMOST_ONE])
    theirs = Image.fromarray(image.astype(np.uint8)).transform(
        (32, 32), Image.Transform.AFFINE, (0.5, 0, 8, 0, 0.5, 8), Image.Resampling.BILINEAR
    )
    assert np.abs(larger - np.asarray(theirs, np.float32)).max() <= 1.5
    smaller = both_ways(Scale(0.5, 1, fill=3), image, [0.0])
    assert (smaller[:7] == 3).all() and (smaller[:, 25:] == 3).all()
    # At half the size, bilinear, every second pixel is a mean of four, which are equal here.
    np.testing.assert_allclose(smaller[9:23, 9:23][::4, ::4], image[3:30, 3:30][::8, ::8], atol=0.1)


def test_brightness() -> None:
    image = noise(9, 9)
    for random, factor in ((0.0, 0.6), (0.25, 0.8), (0.75, 1.2)):
        changed = both_ways(Brightness(), image, [random])
        np.testing.assert_allclose(changed, np.clip(factor * image, 0, 255), rtol=1e-6)
        theirs = ImageEnhance.Brightness(Image.fromarray(image.astype(np.uint8))).enhance(factor)
        assert np.abs(changed - np.asarray(theirs)).max() <= 1


def test_contrast() -> None:
    image = noise(9, 9)
    for random, factor in ((0.0, 0.6), (0.25, 0.8), (0.75, 1.2)):
        changed = both_ways(Contrast(), image, [random])
        theirs = ImageEnhance.Contrast(Image.fromarray(image.astype(np.uint8))).enhance(factor)
        assert np.abs(changed - np.asarray(theirs)).max() <= 1.3  # they round mean and result


def in_hsv(image: Any, change: Any) -> Any:
    flat = [colorsys.rgb_to_hsv(*pixel) for pixel in (image.reshape(-1, 3) / 255).tolist()]
    return 255 * np.array([colorsys.hsv_to_rgb(*change(*pixel)) for pixel in flat]).reshape(
        image.shape
    )


def test_saturation() -> None:
    image = noise(9, 9)
    for random, factor in ((0.0, 0.6), (0.25, 0.8), (0.75, 1.2)):
        changed = both_ways(Saturation(), image, [random])
        expected = in_hsv(image, lambda h, s, v: (h, min(1.0, s * factor), v))  # noqa: B023
        np.testing.assert_allclose(changed, expected, atol=0.01)


def test_hue() -> None:
    image = noise(9, 9)
    for random, turn in ((0.0, -0.5), (0.3, -0.2), (0.9, 0.4)):
        changed = both_ways(Hue(0.5), image, [random])
        expected = in_hsv(image, lambda h, s, v: ((h + turn) % 1, s, v))  # noqa: B023
        np.testing.assert_allclose(changed, expected, atol=0.01)


def test_random_erasing() -> None:
    image = noise(64, 64)
    for random in np.random.default_rng(0).random((20, 6)).tolist():
        erased = both_ways(RandomErasing(probability=1, fill=-0.0), image + 1, random)
        rows, columns = np.where((erased == 0).all(axis=-1))
        box = (slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1))
        assert (erased[box] == 0).all()
        assert 0.015 < len(rows) / 64**2 < 0.41
        rest = np.ones((64, 64), bool)
        rest[box] = False
        assert (erased[rest] == image[rest] + 1).all()


def test_random_erasing_fills() -> None:
    image = np.full((100, 100, 3), 300, np.float32)
    draws = [0.0, 0.5, ALMOST_ONE, 0.5, 0.5, 0.3]
    pixels = both_ways(RandomErasing(), image, draws)
    values = pixels[pixels < 300]
    assert len(values) > 10000 and (values == values.round()).all()
    assert abs(values.mean() - 127.5) < 3 and {0.0, 255.0} <= set(values.tolist())
    counts = np.bincount(values.astype(int), minlength=256)
    assert counts.min() > 0.5 * counts.mean()
    color = both_ways(RandomErasing(fill="color"), image, draws)
    assert len(np.unique(color[color[..., 0] < 300], axis=0)) == 1
    other = both_ways(RandomErasing(fill="color"), image, [*draws[:5], 0.7])
    assert (other != color).any()
    assert (both_ways(RandomErasing(), image, [0.5, *draws[1:]]) == image).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_channels_first(dtype: Any) -> None:
    image = textured(5, 7).astype(dtype)
    assert (both_ways(ChannelsFirst(), image, []) == image.transpose(2, 0, 1)).all()
    batch = np.stack([image, image // 2])
    assert (both_ways(ChannelsFirst(), batch, []) == batch.transpose(0, 3, 1, 2)).all()
    assert ChannelsFirst().shape((5, None, 3)) == (3, 5, None)


def test_normalization() -> None:
    image = textured(5, 7)
    normalize = reader.Normalization("own", (1, 2, 3), (4, 5, 6))
    expected = (image.astype(np.float32) - [1, 2, 3]) / [4, 5, 6]
    np.testing.assert_allclose(both_ways(normalize, image, []), expected, rtol=1e-6)
    for shift, scale in (((1, 2), (1, 2, 3)), ((1, 2, 3), (1, 0, 3)), ((1, 2, np.inf), (1, 1, 1))):
        with pytest.raises(UsageError, match=r"in Normalization.* three finite numbers"):
            reader.Normalization("own", shift, scale)


def test_every_augmentation_crops_first_and_never_goes_back() -> None:
    for names in AUGMENTATIONS.values():
        stages = [STAGES.index(TRANSFORMS[name]().stage) for name in names]
        assert stages == sorted(stages) and stages.count(0) == 1
    # A name of several could not stand in a list next to the transform of that name.
    assert not set(AUGMENTATIONS) & set(TRANSFORMS)


def test_every_transform_is_tested_here() -> None:
    elsewhere = {"rand_augment", "mixup", "cutmix"}
    assert all(f"test_{name}" in globals() for name in set(TRANSFORMS) - elsewhere)
