"""Every decoder runs eagerly and inside tf.data, with and without a crop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import simplejpeg
import tensorflow as tf
from PIL import Image

from beam_jobs.images.encode import ENCODERS
from reader.decoders import DECODERS
from reader.transforms.center_crop import center_crop
from reader.transforms.random_resized_crop import random_resized_crop

SIZES = ((48, 64), (64, 48), (31, 31), (1, 1), (9, 200))


def textured(height: int, width: int) -> Any:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 3 % 256, y * 3 % 256, (x + y) % 256], axis=-1).astype(np.uint8)


def stored(encoding: str, pixels: Any) -> bytes:
    if encoding == "jpeg":
        # 4:4:4: with subsampled colour, pixels at the edge of a crop may depend on what is outside.
        return simplejpeg.encode_jpeg(pixels, quality=95, colorsubsampling="444")
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
def test_the_whole_picture(encoding: str, size: tuple[int, int]) -> None:
    pixels = textured(*size)
    found = decoded(encoding, pixels)
    assert found.shape == pixels.shape
    if encoding in ("png", "raw"):
        assert (found == pixels).all()


def test_webp_is_what_pillow_makes_of_it(tmp_path: Any) -> None:
    pixels = textured(48, 64)
    path = tmp_path / "a.webp"
    path.write_bytes(stored("webp", pixels))
    with Image.open(path) as image:
        assert (decoded("webp", pixels) == np.asarray(image)).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("encoding", DECODERS)
def test_a_crop_is_decode_then_cut(encoding: str, size: tuple[int, int]) -> None:
    pixels = textured(*size)
    whole = decoded(encoding, pixels)
    randoms = np.random.default_rng(0).random((4, 4)).tolist()
    crops = [lambda size, own=own: random_resized_crop(size, tf.constant(own)) for own in randoms]
    for crop in (lambda size: center_crop(size, None), *crops):
        top, left, height, width = crop(tf.constant(size)).numpy()
        expected = whole[top : top + height, left : left + width]
        assert (decoded(encoding, pixels, crop) == expected).all()


def test_there_is_a_decoder_for_every_encoding() -> None:
    from shard_format import ENCODINGS

    assert set(DECODERS) == set(ENCODERS) == set(ENCODINGS)
