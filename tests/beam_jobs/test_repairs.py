"""Alpha, depth, orientation and frames, against values that are known without the decoder."""

from __future__ import annotations

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode import DecodingOptions, decode_image

SIZE = 16


def decode(data, **options):
    return decode_image(data, DecodingOptions(**({"max_pixels": 1_000_000} | options)))


def reason(data, **options):
    with pytest.raises(Rejection) as refusal:
        decode(data, **options)
    assert refusal.value.stage != "filter"
    return refusal.value.reason


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def gradient(mode="RGB"):
    levels = np.arange(256, dtype=np.uint8).reshape(SIZE, SIZE)
    return Image.fromarray(np.dstack([levels, levels[::-1], levels.T])).convert(mode)


def png(depth, colour, samples, *chunks):
    """A PNG of 4 pixels in a row, byte for byte; `samples` is the row, packed."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 4, 1, depth, colour, 0, 0, 0)), *chunks]
    parts += [(b"IDAT", zlib.compress(b"\0" + samples)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


# --- alpha


@pytest.mark.parametrize("background", [(255, 255, 255), (10, 200, 90)])
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "GIF"])
def test_the_background_shows_through(kind, background):
    image = Image.new("RGBA", (16, 16), (255, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 8, 16))
    lossless = {"lossless": True} if kind == "WEBP" else {}
    decoded = decode(saved(image, kind, **lossless), background=background)
    assert np.all(decoded.pixels[:, :8] == background)
    assert np.all(decoded.pixels[:, 8:] == (255, 0, 0))
    assert decoded.repairs == {"alpha"}


@pytest.mark.parametrize("background", [(255, 255, 255), (10, 200, 90)])
@pytest.mark.parametrize(
    ("name", "data", "colours"),
    [
        # Half of 200 over the background; 128 of 255 parts.
        ("LA", png(8, 4, bytes([200, 0, 200, 128, 200, 255, 0, 255])), [None, 200.5, 200, 0]),
        (
            "P, opacity per colour",
            png(8, 3, bytes([0, 1, 2, 2]), (b"PLTE", bytes([9] * 3 + [200] * 3 + [7] * 3)),
                (b"tRNS", bytes([0, 128]))),
            [None, 200.5, 7, 7],
        ),
        ("gray, one level", png(8, 0, bytes([5, 6, 7, 8]), (b"tRNS", b"\0\5")), [None, 6, 7, 8]),
        # The level counts in 4 bits, the pixel in 8.
        ("gray of 4 bits", png(4, 0, b"\x3f\x12", (b"tRNS", b"\0\3")), [None, 255, 17, 34]),
        ("gray of 2 bits", png(2, 0, b"\xd2", (b"tRNS", b"\0\3")), [None, 85, 0, 170]),
        ("gray of 1 bit", png(1, 0, b"\x50", (b"tRNS", b"\0\0")), [None, 255, None, 255]),
        # Only all 16 bits equal are transparent.
        (
            "gray of 16 bits",
            png(16, 0, struct.pack(">4H", 513, 514, 1000, 65535), (b"tRNS", b"\2\1")),
            [None, 2, 3, 255],
        ),
        (
            "RGB of 16 bits",
            png(16, 2, struct.pack(">12H", *[513] * 3, *[514] * 3, *[1000] * 3, *[65535] * 3),
                (b"tRNS", struct.pack(">3H", 513, 513, 513))),
            [None, 2, 3, 255],
        ),
        ("RGB", png(8, 2, bytes([1] * 3 + [2] * 3 + [3] * 3 + [4] * 3), (b"tRNS", b"\0\1" * 3)),
         [None, 2, 3, 4]),
    ],
)  # fmt: skip
def test_every_kind_of_transparency(name, data, colours, background):
    pixels = decode(data, background=background).pixels[0].astype(int)
    for pixel, colour in zip(pixels, colours, strict=True):
        if colour is None:
            expected = background
        elif colour == 200.5:
            expected = [(200 * 128 + level * 127) / 255 for level in background]
        else:
            expected = colour
        assert abs(pixel - np.array(expected)).max() <= 0.5, name


# --- depth


def test_sixteen_bits_stay_in_order():
    wide = np.sort(np.random.default_rng(1).integers(0, 65536, 4096)).astype(np.uint16)
    rows = wide.reshape(64, 64)
    colour = np.repeat(rows[:, :, np.newaxis], 3, axis=2)
    files = [saved(Image.fromarray(rows), "PNG"), saved(Image.fromarray(rows), "TIFF")]
    files += [cv2.imencode(end, colour)[1].tobytes() for end in (".png", ".tiff")]
    files += [b"P5 64 64 65535\n" + rows.astype(">u2").tobytes()]
    for data in files:
        decoded = decode(data)
        assert np.all(np.diff(decoded.pixels[:, :, 0].ravel().astype(int)) >= 0)
        np.testing.assert_array_equal(decoded.pixels[:, :, 1], rows >> 8)


def test_a_tiff_where_white_is_zero_and_one_of_12_bits():
    data = saved(Image.fromarray(np.full((4, 4), 0x1234, np.uint16)), "TIFF")
    inverted = data.replace(
        struct.pack("<HHIHH", 262, 3, 1, 1, 0), struct.pack("<HHII", 262, 3, 1, 0)
    )
    assert inverted != data
    assert np.all(decode(inverted).pixels == 255 - 0x12)
    twelve = data.replace(
        struct.pack("<HHIHH", 258, 3, 1, 16, 0), struct.pack("<HHII", 258, 3, 1, 12)
    )
    pixels = decode(twelve).pixels  # the bytes 34 12 34 12 are the 12-bit samples 341 and 234
    assert pixels[0, 0, 0] == 0x34 and pixels[0, 1, 0] == 0x23


@pytest.mark.parametrize("mode", ["I", "F"])
def test_modes_without_one_meaning_are_refused(mode):
    assert reason(saved(Image.new(mode, (4, 4)), "TIFF")) == "unsupported-mode"


# --- orientation


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_in_every_format(kind, orientation):
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    upright = Image.new("RGB", (48, 32), "white")
    upright.paste((255, 0, 0), (0, 0, 24, 16))
    upright.paste((0, 0, 255), (0, 16, 24, 32))
    stored = upright.transpose(undo[orientation]) if orientation in undo else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    decoded = decode(saved(stored, kind, exif=exif))
    assert decoded.pixels.shape == (32, 48, 3)
    assert abs(decoded.pixels.astype(int) - np.asarray(upright)).mean() < 6
    assert decoded.repairs == ({"orientation"} if orientation > 1 else set())


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    ("exif", "repairs"),
    [(b"Exif\0\0nonsense", {"exif"}), (b"Exif\0\0II*\0\xff\xff\xff\x7f", set()), (b"", set())],
)
def test_broken_exif_is_ignored(kind, exif, repairs):
    assert decode(saved(gradient(), kind, exif=exif)).repairs == repairs


def test_orientations_that_do_not_exist_are_upright():
    for value in (0, 9, 65535):
        exif = Image.Exif()
        exif[0x0112] = value
        assert decode(saved(gradient(), "JPEG", exif=exif)).repairs == set()


# --- frames


def frames(kind, **options):
    first, second = Image.new("RGB", (16, 16), (200, 0, 0)), Image.new("RGB", (16, 16), (0, 0, 200))
    return saved(first, kind, save_all=True, append_images=[second], **options)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF", "AVIF"])
def test_the_first_frame_or_none(kind):
    data = frames(kind)
    decoded = decode(data)
    assert abs(decoded.pixels.astype(int) - (200, 0, 0)).max() < 12
    assert decoded.repairs == {"frames"}
    assert reason(data, animated="refuse") == "animated"
    single = saved(Image.new("RGB", (16, 16)), kind)
    assert decode(single, animated="refuse").repairs == set()


def test_the_images_behind_a_jpeg_are_not_frames():
    data = frames("MPO")
    decoded = decode(data, animated="refuse")
    assert decoded.format == "JPEG" and decoded.repairs == set()
