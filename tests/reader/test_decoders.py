"""Every decoder runs eagerly and inside tf.data, with and without a crop."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import simplejpeg
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_jobs.images.encode import ENCODERS
from reader.graph.decoders import DECODERS
from reader.transforms.crops import CenterCrop, RandomResizedCrop
from tests.fixtures.proofs import each_value_once, examples

SIZES = ((48, 64), (64, 48), (31, 31), (1, 1), (9, 200))


def textured(height: int, width: int) -> Any:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 3 % 256, y * 3 % 256, (x + y) % 256], axis=-1).astype(np.uint8)


def stored(encoding: str, pixels: Any) -> bytes:
    return ENCODERS[encoding](pixels, 90)


def decoded(encoding: str, pixels: Any, crop: Any = None) -> Any:
    """The decoder's result, seen to be the same eagerly and in a tf.data map."""
    features = {"image": tf.constant(stored(encoding, pixels))}
    sides = zip(("height", "width"), pixels.shape, strict=False)
    features |= {name: tf.constant(side, tf.int64) for name, side in sides}
    decode = DECODERS[encoding].decode
    eager = decode(features, crop).numpy()
    dataset = tf.data.Dataset.from_tensors(features).map(lambda value: decode(value, crop))
    mapped = next(iter(dataset)).numpy()
    assert mapped.dtype == eager.dtype == np.uint8 and (mapped == eager).all()
    return eager


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("encoding", DECODERS)
def test_the_whole_image(encoding: str, size: tuple[int, int]) -> None:
    pixels = textured(*size)
    image = decoded(encoding, pixels)
    assert image.shape == pixels.shape
    if encoding in ("png", "raw"):
        assert (image == pixels).all()


def test_webp_is_what_pillow_makes_of_it(tmp_path: Any) -> None:
    pixels = textured(48, 64)
    path = tmp_path / "a.webp"
    path.write_bytes(stored("webp", pixels))
    with Image.open(path) as image:
        assert (decoded("webp", pixels) == np.asarray(image)).all()


@pytest.mark.parametrize(("encoding", "size"), each_value_once(list(DECODERS), SIZES))
def test_a_crop_is_decode_then_cut(encoding: str, size: tuple[int, int]) -> None:
    pixels = textured(*size)
    whole = decoded(encoding, pixels)
    randoms = np.random.default_rng(0).random((4, 4)).tolist()
    transform = RandomResizedCrop()
    crops = [
        lambda size, own=own: transform({"size": size}, tf.constant(own))["box"] for own in randoms
    ]
    for crop in (lambda size: CenterCrop()({"size": size}, None)["box"], *crops):
        top, left, height, width = crop(tf.constant(size)).numpy()
        expected = whole[top : top + height, left : left + width]
        assert (decoded(encoding, pixels, crop) == expected).all()


def crops(jpeg: bytes, boxes: Any) -> Any:
    """Whether each of these boxes of a JPEG is the same cut of the whole image."""
    whole = DECODERS["jpeg"].decode({"image": jpeg}, None)

    def same(box: Any) -> Any:
        top, left, height, width = tf.unstack(box)
        crop = DECODERS["jpeg"].decode({"image": jpeg}, lambda size: box)
        return tf.reduce_all(crop == whole[top : top + height, left : left + width])

    return tf.map_fn(same, boxes, fn_output_signature=tf.bool).numpy()


@settings(max_examples=examples(20))
@given(
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    colour=st.sampled_from(["444", "422", "420", "440", "411", "Gray"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_crop_of_a_jpeg_is_a_cut_of_the_whole(
    height: int, width: int, colour: str, seed: int
) -> None:
    """However colour is stored; at edges of the image too, and of a single column."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 256, (height, width, 1 if colour == "Gray" else 3), np.uint8)
    space = {"colorspace": "GRAY"} if colour == "Gray" else {}
    jpeg = simplejpeg.encode_jpeg(pixels, 90, colorsubsampling=colour, **space)
    sizes = generator.integers(1, [height, width], (40, 2), endpoint=True)
    sizes[:10, 1] = np.minimum(width, generator.integers(1, 4, 10))  # narrow ones
    corners = generator.integers(0, [height, width] - sizes, endpoint=True)
    corners[10:15], corners[15:20] = 0, ([height, width] - sizes)[15:20]
    boxes = np.concatenate([corners, sizes], axis=1).astype(np.int32)
    assert crops(jpeg, tf.constant(boxes)).all()


def test_every_crop_of_a_progressive_jpeg_is_a_cut_of_the_whole() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", progressive=True, subsampling="4:2:0")
    boxes = [[y, x, 5, w] for y in range(0, 35, 14) for w in (1, 9) for x in range(50 - w)]
    assert crops(file.getvalue(), tf.constant(boxes)).all()


def test_there_is_a_decoder_for_every_encoding() -> None:
    from shard_format import ENCODINGS

    assert set(DECODERS) == set(ENCODERS) == set(ENCODINGS)
