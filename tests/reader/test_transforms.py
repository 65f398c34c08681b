"""Every transform runs eagerly and inside tf.data: the two differ more often than one thinks."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
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

SIZES = ((48, 64), (64, 48), (31, 31), (1, 1), (9, 200))
ALMOST_ONE = float(np.nextafter(np.float32(1), np.float32(0)))

numbers = st.floats(0, ALMOST_ONE, width=32)
# Few sizes, since a size is compiled once.
pictures = st.tuples(
    st.sampled_from([(1, 1), (1, 2), (30, 30), (2, 200)]), st.integers(0, 2**32 - 1)
).map(lambda drawn: np.random.default_rng(drawn[1]).integers(0, 256, (*drawn[0], 3)))


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
    # Every second pixel of a bilinear half lies between four of the picture, which are equal here.
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
        with pytest.raises(UsageError, match=r"three finite numbers.* in Normalization"):
            reader.Normalization("own", shift, scale)


# Parameters at which a transform of float32 pictures changes nothing, whatever is drawn.
IDENTITIES = [
    Rotation(0),
    Scale(1, 1),
    Brightness(0),
    Contrast(0),
    Saturation(0),
    Hue(0),
    RandomErasing(probability=0),
]


@settings(max_examples=30)
@given(pictures, st.lists(numbers, min_size=6, max_size=6))
def test_nothing_changes_at_no_strength(image: Any, draws: list[float]) -> None:
    image = image.astype(np.float32)
    for transform in IDENTITIES:
        random = tf.constant(draws[: transform.num_random], tf.float32)
        found = transform({"image": tf.constant(image)}, random)["image"].numpy()
        np.testing.assert_allclose(found, image, atol=1e-3, err_msg=repr(transform))


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


@settings(max_examples=30)
@given(pictures, st.lists(numbers, min_size=6, max_size=6))
def test_values_and_shapes_stay_in_range_at_any_strength(image: Any, draws: list[float]) -> None:
    """Of pictures from 1 x 1 to very wide ones."""
    image = tf.constant(image, tf.float32)
    for transform in STRONGEST:
        random = tf.constant(draws[: transform.num_random], tf.float32)
        example = transform({"image": image, "label": 7}, random)
        found = example["image"].numpy()
        assert found.shape == image.shape and found.dtype == np.float32, transform
        assert found.min() >= 0 and found.max() <= 255.001, transform
        assert example["label"] == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: CenterCrop(share=0),
            r"share must be a number in \[0.01, 1\], got 0 in CenterCrop",
        ),
        (
            lambda: RandomResizedCrop(min_area=0.9, max_area=0.5),
            "min_area must be at most max_area",
        ),
        (lambda: RandomResizedCrop(max_ratio=0.5), r"max_ratio must be a number in \[1, 10\]"),
        (lambda: HorizontalFlip(50), "probability .* got 50 in HorizontalFlip. Pass another"),
        (lambda: VerticalFlip(-0.1), "got -0.1 in VerticalFlip"),
        (lambda: Rotation(360), r"max_degrees must be a number in \[0, 180\], got 360"),
        (lambda: Rotation(True), "got True in Rotation"),
        (lambda: Rotation("15"), "got '15' in Rotation"),  # type: ignore[arg-type]
        (lambda: Rotation(float("nan")), "got nan in Rotation"),
        (lambda: Rotation(fill=256), r"fill must be a number in \[0, 255\], got 256"),
        (lambda: Scale(0), "min_factor must be a number"),
        (lambda: Scale(2, 1), "min_factor must be at most max_factor, got 2 and 1 in Scale"),
        (lambda: Brightness(1.5), "max_change .* got 1.5 in Brightness"),
        (lambda: Contrast(-1), "got -1 in Contrast"),
        (lambda: Saturation(2), "got 2 in Saturation"),
        (lambda: Hue(1), r"max_turn must be a number in \[0, 0.5\], got 1 in Hue"),
        (lambda: RandAugment(0), r"num_ops must be a number in \[1, 8\], got 0"),
        (lambda: RandAugment(1.5), "num_ops must be a whole number, got 1.5"),  # type: ignore[arg-type]
        (lambda: RandAugment(2, 31), r"magnitude must be a number in \[0, 30\], got 31"),
        (lambda: RandomErasing(fill="noise"), "fill must be one of pixels, color or a number"),
        (lambda: RandomErasing(fill=300), "fill must be a number"),
        (lambda: RandomErasing(min_area=0.5), "min_area must be at most max_area, got 0.5 and 0.4"),
        (lambda: Mixup(0), r"alpha must be a number in \[0.01, 100\], got 0 in Mixup"),
        (lambda: CutMix(probability=2), "got 2 in CutMix"),
    ],
)
def test_parameters_out_of_range(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_every_augmentation_crops_first_and_never_goes_back() -> None:
    for names in AUGMENTATIONS.values():
        stages = [STAGES.index(TRANSFORMS[name]().stage) for name in names]
        assert stages == sorted(stages) and stages.count(0) == 1
    # A name of several could not stand in a list beside the transform of that name.
    assert not set(AUGMENTATIONS) & set(TRANSFORMS)


def test_every_transform_is_tested_here() -> None:
    elsewhere = {"rand_augment", "mixup", "cutmix"}
    assert all(f"test_{name}" in globals() for name in set(TRANSFORMS) - elsewhere)
