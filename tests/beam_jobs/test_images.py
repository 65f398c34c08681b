"""Decode, resize, encode: plain functions, no pipeline."""

from __future__ import annotations

import io

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.encode import encode_jpeg
from beam_jobs.images.resize import (
    RESIZE_MODES,
    keeps_size,
    parse_resize,
    resize_image,
    stays_smaller,
)
from shard_format import UsageError

MAX_PIXELS = 1_000_000
OPTIONS = DecodingOptions(MAX_PIXELS)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def quadrants() -> Image.Image:
    """Red, green / blue, white: tells every orientation from every other."""
    pixels = np.zeros((32, 48, 3), np.uint8)
    pixels[:16, :24], pixels[:16, 24:] = (255, 0, 0), (0, 255, 0)
    pixels[16:, :24], pixels[16:, 24:] = (0, 0, 255), (255, 255, 255)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "TIFF", "PPM"])
def test_lossless_formats_give_their_pixels(kind):
    one_image = decode_image(saved(quadrants(), kind), OPTIONS)
    assert one_image.format == kind
    np.testing.assert_array_equal(one_image.pixels, np.asarray(quadrants()))


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF"])
def test_lossy_formats_come_close(kind):
    one_image = decode_image(saved(quadrants(), kind, quality=95), OPTIONS)
    assert one_image.format == kind
    difference = one_image.pixels.astype(int) - np.asarray(quadrants())
    assert abs(difference).mean() < 6


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_every_exif_orientation_is_undone(orientation, kind):
    upright = quadrants()
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,  # stored turned by 90 degrees counter-clockwise
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(undo[orientation]) if orientation in undo else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    one_image = decode_image(saved(stored, kind, exif=exif), OPTIONS)
    assert one_image.pixels.shape == (32, 48, 3)
    assert (one_image.width, one_image.height) == stored.size
    assert abs(one_image.pixels.astype(int) - np.asarray(upright)).mean() < 6


def test_a_broken_exif_tag_does_not_kill_a_image():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = bytearray(saved(quadrants(), "JPEG", exif=exif))
    start = data.index(b"Exif\0\0") + 6
    data[start + 4 : start + 8] = b"\xff\xff\xff\x7f"  # the first directory lies far outside
    assert decode_image(bytes(data), OPTIONS).pixels.shape == (32, 48, 3)


def test_other_modes_come_out_as_rgb():
    gray = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    for mode in ("1", "L", "P", "RGBA", "LA", "CMYK"):
        kind = "TIFF" if mode == "CMYK" else "PNG"
        pixels = decode_image(saved(gray.convert(mode), kind), OPTIONS).pixels
        assert pixels.shape == (16, 16, 3), mode
        expected = np.asarray(gray.convert(mode).convert("RGB"), int)
        assert abs(pixels.astype(int) - expected).max() <= 1, mode


def test_sixteen_bits_are_scaled_not_clipped():
    wide = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    pixels = decode_image(saved(Image.fromarray(wide), "PNG"), OPTIONS).pixels
    np.testing.assert_array_equal(pixels[:, :, 0], np.arange(256).reshape(16, 16))


def test_transparent_pixels_show_white():
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    assert decode_image(saved(clear, "PNG"), OPTIONS).pixels.min() == 255


def test_gray_and_cmyk_jpegs_are_read():
    for mode in ("L", "CMYK"):
        data = saved(quadrants().convert(mode), "JPEG", quality=95)
        assert decode_image(data, OPTIONS).pixels.shape == (32, 48, 3)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty-file"),
        (b"<html>404</html>", "not-an-image"),
        (saved(quadrants(), "PNG")[:20], "truncated"),
        (b"\x89PNG and then nonsense", "corrupt"),
        (saved(quadrants(), "JPEG")[:-300], "truncated"),
        (saved(quadrants(), "PNG")[:-40], "truncated"),
        (saved(Image.new("F", (4, 4)), "TIFF"), "unsupported-mode"),
    ],
)
def test_what_cannot_be_read_has_a_reason(data, reason):
    with pytest.raises(Rejection) as refusal:
        decode_image(data, OPTIONS)
    assert refusal.value.reason == reason
    assert refusal.value.detail


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_bombs_are_refused_by_what_they_declare(kind):
    data = saved(Image.new("L", (2000, 1000)), kind)
    with pytest.raises(Rejection) as refusal:
        decode_image(data, OPTIONS)
    assert refusal.value.reason == "too-many-pixels"
    assert "2000 x 1000" in refusal.value.detail


def test_messages_are_the_same_every_time():
    """Pillow names the address of its buffer; details are part of the set."""
    messages = set()
    for _ in range(5):
        with pytest.raises(Rejection) as refusal:
            decode_image(b"II*\0" + bytes(100), OPTIONS)
        messages.add(refusal.value.detail)
    assert len(messages) == 1
    assert "0x" not in messages.pop()


@given(st.binary(max_size=100), st.integers(0, 600))
def test_any_damage_is_a_refusal_or_a_image(noise, position):
    for kind in ("PNG", "JPEG"):
        data = bytearray(saved(quadrants(), kind))
        data[position : position + len(noise)] = noise
        try:
            assert decode_image(bytes(data), OPTIONS).pixels.ndim == 3
        except Rejection as refusal:
            assert refusal.reason


sides = st.integers(1, 300)


@given(sides, sides, st.integers(1, 64))
def test_shorter_with_enlarge_sets_the_shorter_side(width, height, side):
    image = np.zeros((height, width, 3), np.uint8)
    resized = resize_image(image, parse_resize(f"shorter:{side}", enlarge=True), 10**7)
    assert min(resized.shape[:2]) == side
    assert abs(resized.shape[1] / resized.shape[0] * height / width - 1) < 0.6 / side + 1e-9


@given(sides, sides, st.integers(1, 64), st.integers(1, 64))
def test_boxes_are_filled_with_enlarge(width, height, box_width, box_height):
    image = np.full((height, width, 3), 200, np.uint8)
    for mode in ("crop", "pad"):
        resize = parse_resize(f"{mode}:{box_width}x{box_height}", enlarge=True)
        assert resize_image(image, resize, MAX_PIXELS).shape == (box_height, box_width, 3)
    resize = parse_resize(f"fit:{box_width}x{box_height}", enlarge=True)
    fitted = resize_image(image, resize, MAX_PIXELS)
    assert fitted.shape[0] <= box_height and fitted.shape[1] <= box_width
    assert fitted.shape[0] == box_height or fitted.shape[1] == box_width


@given(sides, sides, st.sampled_from(sorted(RESIZE_MODES)), st.integers(1, 64), st.integers(1, 64))
def test_no_image_is_enlarged(width, height, mode, box_width, box_height):
    resize = a_resize(mode, box_width, box_height)
    image = np.random.default_rng(0).integers(1, 256, (height, width, 3), np.uint8)
    result = resize_image(image, resize, MAX_PIXELS)
    again = resize_image(result, resize, MAX_PIXELS)
    assert np.array_equal(again, result)  # also: keeps_size of what was resized
    assert keeps_size(result.shape[1], result.shape[0], resize)
    content = result[result.any(axis=(1, 2))][:, result.any(axis=(0, 2))]
    assert content.shape[0] <= height and content.shape[1] <= width
    if mode in ("fit", "crop", "pad"):
        assert result.shape[0] <= box_height and result.shape[1] <= box_width
    if mode == "pad":
        assert result.shape[:2] == (box_height, box_width)
    if mode == "shorter":
        assert min(result.shape[:2]) == min(width, height, box_width)
    box = (box_width, box_height) if mode == "crop" else (width, height)
    assert within_rounding(content.shape[1], content.shape[0], *box)
    if stays_smaller(width, height, resize) and mode != "crop":
        assert np.array_equal(content, image)


def a_resize(mode, width, height):
    """The mode with a box of this size."""
    box = {"shorter": f":{width}", "none": ""}.get(mode, f":{width}x{height}")
    return parse_resize(f"{mode}{box}")


def within_rounding(width, height, of_width, of_height):
    """Whether one side is the other in this aspect ratio, rounded, or as thin as it can be."""
    exact = height * of_width / of_height, width * of_height / of_width
    return (
        abs(width - exact[0]) <= 0.5
        or abs(height - exact[1]) <= 0.5
        or (width == 1 and exact[0] < 1)
        or (height == 1 and exact[1] < 1)
    )


@pytest.mark.parametrize(
    ("mode", "size", "smaller"),
    [
        ("shorter:30", (40, 29), True),
        ("shorter:30", (40, 30), False),
        ("fit:30x20", (29, 19), True),
        ("fit:30x20", (29, 20), False),
        ("pad:30x20", (29, 19), True),
        ("pad:30x20", (31, 19), False),
        ("crop:30x20", (29, 90), True),
        ("crop:30x20", (30, 20), False),
        ("none", (1, 1), False),
    ],
)
def test_what_stays_smaller_than_its_mode_asks_for(mode, size, smaller):
    assert stays_smaller(*size, parse_resize(mode)) is smaller
    assert not stays_smaller(*size, parse_resize(mode, enlarge=True))


def test_small_images_are_padded_and_cropped_in_their_own_size():
    image = np.arange(1, 10, dtype=np.uint8).reshape(3, 3, 1).repeat(3, axis=2)
    padded = resize_image(image, parse_resize("pad:7x5"), MAX_PIXELS)
    assert np.array_equal(padded[1:4, 2:5], image) and padded.sum() == image.sum()
    assert np.array_equal(resize_image(image, parse_resize("crop:30x10"), MAX_PIXELS), image[1:2])


def test_pad_centres_on_black_and_crop_keeps_the_middle():
    image = np.full((10, 20, 3), 255, np.uint8)
    padded = resize_image(image, parse_resize("pad:20x20"), MAX_PIXELS)
    assert padded[:5].max() == 0 and padded[5:15].min() == 255 and padded[15:].max() == 0
    image[:, 5:15] = 7
    assert np.all(resize_image(image, parse_resize("crop:10x10"), MAX_PIXELS) == 7)


def test_none_changes_nothing():
    image = np.random.default_rng(0).integers(0, 256, (5, 9, 3), np.uint8)
    assert resize_image(image, parse_resize("none"), MAX_PIXELS) is image


def test_a_thin_strip_does_not_grow_without_bound():
    strip = np.zeros((1, 5000, 3), np.uint8)
    with pytest.raises(Rejection, match="too-large-resized"):
        resize_image(strip, parse_resize("shorter:256", enlarge=True), MAX_PIXELS)


@pytest.mark.parametrize(
    "text", ["", "shorter", "shorter:0", "shorter:x", "fit:3", "crop:0x5", "pad:70000x1", "half:2"]
)
def test_a_wrong_resize_is_reported(text):
    with pytest.raises(UsageError, match="--resize is "):
        parse_resize(text)


def test_every_mode_can_be_asked_for():
    for mode in RESIZE_MODES:
        assert parse_resize({"shorter": "shorter:8", "none": "none"}.get(mode, f"{mode}:8x8"))


def test_encoding_is_a_baseline_jpeg_with_420_chroma():
    data = encode_jpeg(np.asarray(quadrants()), 90)
    assert simplejpeg.decode_jpeg_header(data) == (32, 48, "YCbCr", "420")
    assert data == encode_jpeg(np.asarray(quadrants()), 90)
