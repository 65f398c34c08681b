"""What preprocessing did to images, done again in a graph: the same pixels."""

from __future__ import annotations

import functools
import io

import cv2
import numpy as np
import pytest
import simplejpeg
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_jobs.images import resample
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.resize import parse_resize, resize_image
from beam_jobs.options.image import RESIZE_FILTERS
from trainer.export.orientation import orientation
from trainer.export.resizing import FILTERS, resize
from trainer.export.source_images import source_images

_SPECS = [
    tf.TensorSpec([None, None, 3], tf.uint8),
    tf.TensorSpec([], tf.int32),
    tf.TensorSpec([], tf.int32),
]
RESIZE = {
    name: tf.function(functools.partial(resize, resize_filter=name), input_signature=_SPECS)
    for name in FILTERS
}


def test_the_filters_are_those_of_preprocessing():
    assert tuple(FILTERS) == tuple(resample.FILTERS) == RESIZE_FILTERS


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(RESIZE_FILTERS),
    st.integers(1, 90),
    st.integers(1, 90),
    st.integers(1, 90),
    st.integers(1, 90),
    st.booleans(),
)
def test_resizing_gives_the_pixels_of_preprocessing(name, rows, columns, height, width, whole):
    shrinks = height <= rows and width <= columns
    if whole and shrinks:
        rows, columns = height * max(1, rows // height), width * max(1, columns // width)
    noise = np.random.default_rng(rows * 97 + columns)
    image = noise.integers(0, 256, (rows, columns, 3), dtype=np.uint8)
    resized = resample.FILTERS[name] if shrinks else resample.enlarge
    expected = resized(image, width, height) if image.shape[:2] != (height, width) else image
    np.testing.assert_array_equal(RESIZE[name](image, height, width), expected)


@pytest.fixture(scope="module")
def photograph():
    noise = np.random.default_rng(1)
    small = noise.integers(0, 256, (9, 13, 3), dtype=np.uint8)
    return cv2.resize(small, (130, 90), interpolation=cv2.INTER_CUBIC)


def file_of(pixels, kind, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "mode", ["shorter:40", "fit:50x40", "crop:40x30", "pad:64x48", "none", "shorter:200"]
)
def test_a_file_becomes_the_pixels_of_preprocessing(mode, photograph):
    """A set of PNGs, whose pixels are what was encoded."""
    stored = source_images({"resize": mode}, "png")
    data = file_of(photograph, "JPEG", quality=92)
    pixels = decode_image(data, DecodingOptions(10**7)).pixels
    expected = resize_image(pixels, parse_resize(mode), 10**7)
    np.testing.assert_array_equal(tf.io.decode_png(stored.stored(data)), expected)


@pytest.mark.parametrize("number", range(1, 9))
def test_photographs_are_turned_upright(number, photograph):
    exif = Image.Exif()
    exif[0x0112] = number
    data = file_of(photograph, "JPEG", quality=92, exif=exif)
    assert int(orientation(data)) == number
    expected = decode_image(data, DecodingOptions(10**7)).pixels
    stored = source_images({"resize": "none"}, "png").stored(data)
    np.testing.assert_array_equal(tf.io.decode_png(stored), expected)


def test_transparency_is_composited_over_the_background(photograph):
    alpha = np.arange(90 * 130, dtype=np.int64).reshape(90, 130, 1) % 256
    data = file_of(np.concatenate([photograph, alpha.astype(np.uint8)], axis=2), "PNG")
    options = DecodingOptions(10**7, background=(255, 128, 0))
    expected = decode_image(data, options).pixels
    stored = source_images({"resize": "none", "background": "#ff8000"}, "png").stored(data)
    np.testing.assert_array_equal(tf.io.decode_png(stored), expected)


def test_a_jpeg_set_is_encoded_as_near_as_tensorflow_can(photograph):
    """Its encoder has an accurate DCT, that of preprocessing a fast one below quality 96."""
    data = file_of(photograph, "JPEG", quality=92)
    stored = source_images({"resize": "shorter:40", "quality": 90}, "jpeg").stored(data)
    small = resize_image(
        decode_image(data, DecodingOptions(10**7)).pixels, parse_resize("shorter:40"), 10**7
    )
    ours = simplejpeg.encode_jpeg(small, quality=90, colorspace="RGB", colorsubsampling="420")
    difference = np.abs(
        tf.io.decode_jpeg(stored).numpy().astype(int) - tf.io.decode_jpeg(ours).numpy()
    )
    assert difference.mean() < 1.5 and difference.max() <= 24


def test_a_kept_jpeg_keeps_its_bytes(photograph):
    data = file_of(photograph, "JPEG", quality=92)
    keeping = source_images({"resize": "none", "quality": "keep:90"}, "jpeg")
    assert keeping.stored(data).numpy() == data
