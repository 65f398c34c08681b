"""What preprocessing did to images, done again in a graph: the same pixels."""

from __future__ import annotations

import functools
import io
import struct
import zlib

import cv2
import numpy as np
import pytest
import simplejpeg
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_jobs.images import resize as job_resize
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.resize import parse_resize, resize_image
from beam_jobs.options.image import RESIZE_FILTERS
from inference.export.orientation import orientation
from inference.export.resizing import FILTERS, resize
from inference.export.source_images import source_images
from tests.fixtures.proofs import examples

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
    assert tuple(FILTERS) == tuple(job_resize.FILTERS) == RESIZE_FILTERS


@settings(max_examples=examples(100), deadline=None)
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
    resized = job_resize.FILTERS[name] if shrinks else job_resize.enlarge
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


def _webp(mode, **options):
    noise = np.random.default_rng(2)
    small = noise.integers(0, 256, (9, 13, 4), dtype=np.uint8)
    pixels = cv2.resize(small, (65, 45), interpolation=cv2.INTER_CUBIC)
    frames = [Image.fromarray(np.roll(pixels, turn * 9, 0)).convert(mode) for turn in range(3)]
    more = {"save_all": True, "append_images": frames[1:]} if options.pop("animated", 0) else {}
    file = io.BytesIO()
    frames[0].save(file, "WEBP", **more, **options)
    return file.getvalue()


WEBP = {
    "opaque": _webp("RGB"),
    "opaque lossless": _webp("RGB", lossless=True),
    "opaque extended": _webp("RGB", exif=b"Exif\0\0" + bytes(20)),
    "alpha": _webp("RGBA"),
    "alpha lossless": _webp("RGBA", lossless=True),
    "opaque animated": _webp("RGB", animated=True),
    "opaque animated lossless": _webp("RGB", animated=True, lossless=True),
    "alpha animated": _webp("RGBA", animated=True),
    "alpha animated lossless": _webp("RGBA", animated=True, lossless=True, exact=True),
}


@functools.cache
def traced(stored):
    """A function as a served model has it."""
    return tf.function(
        stored.stored, input_signature=[tf.TensorSpec([], tf.string)], autograph=False
    )


def in_graph(stored, data):
    return tf.io.decode_png(traced(stored)(data))


@pytest.mark.parametrize("kind", WEBP)
def test_every_kind_of_webp_becomes_the_pixels_of_preprocessing(kind):
    expected = decode_image(WEBP[kind], DecodingOptions(10**7, background=(9, 99, 199))).pixels
    stored = source_images({"resize": "none", "background": "#0963c7"}, "png")
    np.testing.assert_array_equal(in_graph(stored, WEBP[kind]), expected)


@pytest.mark.parametrize("kind", ["opaque animated", "alpha animated"])
def test_a_first_frame_that_covers_a_part_of_the_canvas(kind):
    data = bytearray(WEBP[kind])
    data[24:30] = bytes([99, 0, 0, 79, 0, 0])  # a canvas of 100 x 80
    frame = data.index(b"ANMF") + 8
    data[frame] = data[frame + 3] = 7  # at (14, 14)
    expected = decode_image(bytes(data), DecodingOptions(10**7)).pixels
    assert expected.shape == (80, 100, 3)
    np.testing.assert_array_equal(
        in_graph(source_images({"resize": "none"}, "png"), bytes(data)), expected
    )


def test_the_first_frame_of_an_animated_gif(photograph):
    frames = [Image.fromarray(np.roll(photograph, turn * 9, 0)).quantize(64) for turn in range(3)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], comment=b"c" * 300)
    expected = decode_image(file.getvalue(), DecodingOptions(10**7)).pixels
    stored = source_images({"resize": "none"}, "png")
    np.testing.assert_array_equal(in_graph(stored, file.getvalue()), expected)
    # Frames behind it are not looked at.
    cut = file.getvalue()[: file.getvalue().rindex(b"\x2c") + 20]
    np.testing.assert_array_equal(in_graph(stored, cut), expected)


def _hostile_headers():
    """Format -> a small file that declares many pixels."""
    png = bytearray(file_of(np.zeros((8, 8), np.uint8), "PNG"))
    png[16:24] = struct.pack(">II", 20000, 20001)
    png[29:33] = struct.pack(">I", zlib.crc32(png[12:29]))
    bmp = bytearray(file_of(np.zeros((8, 8, 3), np.uint8), "BMP"))
    bmp[18:26] = struct.pack("<ii", 20000, -20001)
    gif = bytearray(file_of(np.zeros((8, 8), np.uint8), "GIF"))
    gif[6:10] = struct.pack("<HH", 20000, 20001)
    jpeg = bytearray(file_of(np.zeros((8, 8, 3), np.uint8), "JPEG", comment=b"c" * 999))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = struct.pack(">HH", 20001, 20000)
    filled = jpeg[:2] + b"\xff" * 99 + jpeg[2:]
    extended = bytearray(WEBP["alpha"])
    extended[24:30] = (19999).to_bytes(3, "little") + (20000).to_bytes(3, "little")
    return {"png": png, "bmp": bmp, "gif": gif, "jpeg": jpeg, "filled": filled, "webp": extended}


HOSTILE = _hostile_headers()


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_declares_too_much_is_not_decoded(kind):
    stored = source_images({"resize": "none"}, "png")
    with pytest.raises(tf.errors.InvalidArgumentError, match="20000 x 20001 pixels, more than"):
        in_graph(stored, bytes(HOSTILE[kind]))


def test_the_limit_is_that_of_the_set(photograph):
    for kind in ("JPEG", "PNG", "GIF", "BMP", "WEBP"):
        data = file_of(photograph, kind)
        size = photograph.shape[0] * photograph.shape[1]
        source_images({"max_pixels": size}, "png").stored(data)
        with pytest.raises(tf.errors.InvalidArgumentError, match="130 x 90 pixels, more than"):
            source_images({"max_pixels": size - 1}, "png").stored(data)
    for kind in ("opaque", "opaque lossless", "alpha lossless"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="65 x 45 pixels, more than"):
            source_images({"max_pixels": 65 * 45 - 1}, "png").stored(WEBP[kind])


def test_a_thin_strip_is_not_enlarged_beyond_the_limit():
    strip = file_of(np.zeros((1, 60000, 3), np.uint8), "PNG")
    stored = source_images({"resize": "shorter:256", "enlarge": True}, "png")
    with pytest.raises(tf.errors.InvalidArgumentError, match="15360000 x 256 pixels after --res"):
        stored.stored(strip)


def _without_size():
    jpeg = file_of(np.zeros((8, 8, 3), np.uint8), "JPEG")
    gif = file_of(np.zeros((8, 8), np.uint8), "GIF")
    descriptor = gif.rindex(b"\x2c\0\0\0\0")
    large = gif[:descriptor] + b"\x2c\0\0\0\0\xff\xff\xff\xff" + gif[descriptor + 9 :]
    frame = bytearray(WEBP["alpha animated"])
    begin = frame.index(b"ANMF") + 8
    frame[begin + 6 : begin + 9] = b"\xff\xff\xff"
    animated = bytes(WEBP["alpha animated"])
    return {
        "no frame header": (jpeg[: jpeg.index(b"\xff\xc0")], "Invalid JPEG data"),
        "half a header": (jpeg[: jpeg.index(b"\xff\xc0") + 9], "Invalid JPEG data"),
        "gif without a frame": (gif[:descriptor], "ends before the first frame"),
        "gif with half a frame": (gif[: descriptor + 14], "ends before the first frame"),
        "gif with a larger frame": (large, "larger than the image"),
        "webp without a frame": (animated[: animated.index(b"ANMF")], "no frame in the first"),
        "webp with half a frame": (animated[: animated.index(b"ANMF") + 50], "WebP"),
        "webp with a larger frame": (bytes(frame), "outside of the image"),
        "text": (b"hello", "the content is none of JPEG, PNG"),
        "JPEG XL": (b"\xff\x0a" + bytes(50), "the content is none of JPEG, PNG"),
        "nothing": (b"", "the file has no bytes"),
        **{
            magic.decode("latin-1"): (magic, ".") for magic in (b"RIFF", b"GIF8", b"BM", b"\x89PNG")
        },
    }


WITHOUT_SIZE = _without_size()


@pytest.fixture(scope="module")
def decode_stored():
    """A served model's decoder of files, traced once."""
    return traced(source_images({"resize": "none"}, "png"))


@pytest.mark.parametrize("kind", WITHOUT_SIZE)
def test_a_file_without_a_size_is_refused(kind, decode_stored):
    data, message = WITHOUT_SIZE[kind]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        decode_stored(data)
