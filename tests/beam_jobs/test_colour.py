"""Colours to sRGB, each against values that are known without a colour library."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageCms

from beam_jobs.images.decode import DecodingOptions, decode_image

SIZE = 16


def decode(data, **options):
    return decode_image(data, DecodingOptions(**({"max_pixels": 1_000_000} | options)))


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def gradient(mode="RGB"):
    levels = np.arange(256, dtype=np.uint8).reshape(SIZE, SIZE)
    return Image.fromarray(np.dstack([levels, levels[::-1], levels.T])).convert(mode)


def profile(space, *tags):
    """An ICC profile, version 2, of tags (signature, data)."""
    start, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for signature, data in tags:
        table += signature + struct.pack(">II", start + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    kind = b"prtr" if space == b"CMYK" else b"mntr"
    space_between = b"Lab " if space == b"CMYK" else b"XYZ "
    head = struct.pack(">I4sI4s4s4s", start + len(body), b"none", 0x02100000, kind, space, b"")
    head = head[:20] + space_between + bytes(12) + b"acsp" + bytes(28)
    white = struct.pack(">iii", 63190, 65536, 54061)  # D50
    return (head + white).ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def xyz(x, y, z):
    return b"XYZ \0\0\0\0" + struct.pack(">iii", *(round(v * 65536) for v in (x, y, z)))


def gamma(value):
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(value * 256))


def srgb_curve():
    steps = np.linspace(0, 1, 1024)
    linear = np.where(steps <= 0.04045, steps / 12.92, ((steps + 0.055) / 1.055) ** 2.4)
    table = (linear * 65535).round().astype(">u2").tobytes()
    return b"curv\0\0\0\0" + struct.pack(">I", 1024) + table


# Colorants of sRGB under D50 (IEC 61966-2-1, adapted as in its ICC profile).
RED, GREEN, BLUE = (
    xyz(0.43607, 0.22249, 0.01392),
    xyz(0.38515, 0.71687, 0.09708),
    xyz(0.14307, 0.06061, 0.71410),
)
WHITE_POINT = (b"wtpt", xyz(0.96420, 1.0, 0.82491))


def rgb_profile(red, green, blue):
    colorants = [(b"rXYZ", red), (b"gXYZ", green), (b"bXYZ", blue)]
    curves = [(name, srgb_curve()) for name in (b"rTRC", b"gTRC", b"bTRC")]
    return profile(b"RGB ", WHITE_POINT, *colorants, *curves)


LIKE_SRGB = rgb_profile(RED, GREEN, BLUE)
SWAPPED = rgb_profile(BLUE, GREEN, RED)
LINEAR_GRAY = profile(b"GRAY", WHITE_POINT, (b"kTRC", gamma(1.0)))


def no_ink_is_black():
    """A CMYK profile that says the opposite of the custom: white only with all four inks."""
    steps = bytes(range(256))
    clut = b"".join(bytes([255 if node == 15 else 0, 128, 128]) for node in range(16))
    matrix = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    table = b"mft1\0\0\0\0" + bytes([4, 3, 2, 0]) + matrix + steps * 4 + clut + steps * 3
    return profile(b"CMYK", WHITE_POINT, (b"A2B0", table))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP", "AVIF"])
def test_a_profile_is_applied_in_every_format(kind):
    """A profile with red and blue exchanged exchanges red and blue."""
    lossy = {"quality": 95} if kind in ("JPEG", "WEBP", "AVIF") else {}
    plain = decode(saved(gradient(), kind, **lossy))
    found = decode(saved(gradient(), kind, icc_profile=SWAPPED, **lossy))
    np.testing.assert_allclose(found.pixels[:, :, ::-1].astype(int), plain.pixels, atol=1)
    assert found.repairs == {"colour"} and plain.repairs == set()


@pytest.mark.parametrize("same", [LIKE_SRGB, ImageCms.ImageCmsProfile(
    ImageCms.createProfile("sRGB")).tobytes()])  # fmt: skip
def test_an_srgb_profile_changes_nothing(same):
    data = saved(gradient(), "JPEG", icc_profile=same)
    found = decode(data)
    np.testing.assert_array_equal(found.pixels, simplejpeg.decode_jpeg(data, "RGB"))
    assert found.repairs == set()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_a_gray_profile_is_applied(kind):
    """Linear light v is sRGB 1.055 v ** (1 / 2.4) - 0.055."""
    levels = Image.fromarray(np.full((16, 16), 55, np.uint8))
    found = decode(saved(levels, kind, icc_profile=LINEAR_GRAY))
    expected = 255 * (1.055 * (55 / 255) ** (1 / 2.4) - 0.055)
    assert abs(found.pixels.astype(float) - expected).max() <= 1
    assert found.repairs == {"colour"}


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_a_cmyk_profile_is_applied(kind):
    for ink, naive, by_profile in ((0, 255, 0), (255, 0, 255)):
        image = Image.new("CMYK", (16, 16), (ink,) * 4)
        assert abs(decode(saved(image, kind)).pixels.astype(int) - naive).max() <= 1
        found = decode(saved(image, kind, icc_profile=no_ink_is_black()))
        assert abs(found.pixels.astype(int) - by_profile).max() <= 2
        assert "colour" in found.repairs


@pytest.mark.parametrize(
    "broken",
    [b"nonsense", LIKE_SRGB[:200], SWAPPED[:128] + bytes(400), LINEAR_GRAY, no_ink_is_black()],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_a_broken_profile_never_kills(kind, broken):
    lossless = {"lossless": True} if kind == "WEBP" else {}
    data = saved(gradient(), kind, icc_profile=broken, **lossless)
    found = decode(data)
    assert found.repairs == {"profile"}
    np.testing.assert_array_equal(found.pixels, decode(saved(gradient(), kind, **lossless)).pixels)


def test_a_profile_with_a_missing_part_is_broken():
    data = saved(gradient(), "JPEG", icc_profile=SWAPPED)
    at = data.index(b"ICC_PROFILE\0") + 12
    assert data[at : at + 2] == b"\1\1"
    bad = data[:at] + b"\1\2" + data[at + 2 :]
    assert decode(bad).repairs == {"profile"}
    assert decode(bad, lenient=True).repairs >= {"profile"}


def test_cmyk_jpegs_are_inverted_as_adobe_writes_them():
    """Cyan ink takes red away. Pillow writes the inversion, and an Adobe marker."""
    for ink, expected in (((255, 0, 0, 0), (0, 255, 255)), ((0, 0, 0, 255), (0, 0, 0))):
        data = saved(Image.new("CMYK", (16, 16), ink), "JPEG", quality=95)
        found = decode(data)
        assert abs(found.pixels.astype(int) - expected).max() <= 2
        assert found.repairs == {"colour"}
        # Transform 2 in the Adobe marker makes it YCCK: the same ink in other numbers.
        assert simplejpeg.decode_jpeg_header(data)[2] == "CMYK"
        ycck = data.replace(b"Adobe\0\x64\0\0\0\0\0", b"Adobe\0\x64\0\0\0\0\2")
        assert ycck != data and simplejpeg.decode_jpeg_header(ycck)[2] == "YCCK"
        assert decode(ycck).pixels.shape == (16, 16, 3)


def test_lab_is_read():
    """L* 100 is white, L* 0 is black, and a* 0, b* 0 is gray."""
    lab = np.zeros((1, 3, 3), np.uint8)
    lab[0, :, 0] = 0, 128, 255
    found = decode(saved(Image.fromarray(lab, "LAB"), "TIFF"))
    assert found.pixels[0, 0].max() <= 1 and found.pixels[0, 2].min() >= 254
    assert abs(found.pixels[0, 1].astype(int) - 119).max() <= 2  # L* 50 is sRGB 119
    assert found.repairs == {"colour"}
