"""Colours to sRGB, each against values that are known without a colour library."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageCms

from beam_jobs.corpus.record import RawRecord
from beam_jobs.images import colour
from beam_jobs.images.decode import DecodingOptions, decode_image, decode_unconverted
from beam_jobs.images.resize import parse_resize, resize_image
from beam_jobs.options import ImageOptions
from beam_jobs.record_types.image import ImageRecords

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


def rgb_profile(red, green, blue, curve=None):
    colorants = [(b"rXYZ", red), (b"gXYZ", green), (b"bXYZ", blue)]
    curves = [(name, curve or srgb_curve()) for name in (b"rTRC", b"gTRC", b"bTRC")]
    return profile(b"RGB ", WHITE_POINT, *colorants, *curves)


LIKE_SRGB = rgb_profile(RED, GREEN, BLUE)
SWAPPED = rgb_profile(BLUE, GREEN, RED)
ADOBE_RGB = rgb_profile(
    xyz(0.60974, 0.31111, 0.01947),
    xyz(0.20528, 0.62567, 0.06087),
    xyz(0.14919, 0.06322, 0.74457),
    gamma(2.19921875),
)
DISPLAY_P3 = rgb_profile(
    xyz(0.51512, 0.24120, -0.00105), xyz(0.29198, 0.69225, 0.04189), xyz(0.15710, 0.06657, 0.78407)
)
PROPHOTO = rgb_profile(
    xyz(0.79767, 0.28804, 0.0), xyz(0.13519, 0.71188, 0.0), xyz(0.03134, 0.00009, 0.82491),
    gamma(1.8),
)  # fmt: skip
LINEAR_RGB = rgb_profile(RED, GREEN, BLUE, gamma(1.0))
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
    decoded = decode(saved(gradient(), kind, icc_profile=SWAPPED, **lossy))
    np.testing.assert_allclose(decoded.pixels[:, :, ::-1].astype(int), plain.pixels, atol=1)
    assert decoded.repairs == {"colour"} and plain.repairs == set()


@pytest.mark.parametrize("same", [LIKE_SRGB, ImageCms.ImageCmsProfile(
    ImageCms.createProfile("sRGB")).tobytes()])  # fmt: skip
def test_an_srgb_profile_changes_nothing(same):
    data = saved(gradient(), "JPEG", icc_profile=same)
    decoded = decode(data)
    np.testing.assert_array_equal(decoded.pixels, simplejpeg.decode_jpeg(data, "RGB"))
    assert decoded.repairs == set()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_a_gray_profile_is_applied(kind):
    """Linear light v is sRGB 1.055 v ** (1 / 2.4) - 0.055."""
    levels = Image.fromarray(np.full((16, 16), 55, np.uint8))
    decoded = decode(saved(levels, kind, icc_profile=LINEAR_GRAY))
    expected = 255 * (1.055 * (55 / 255) ** (1 / 2.4) - 0.055)
    assert abs(decoded.pixels.astype(float) - expected).max() <= 1
    assert decoded.repairs == {"colour"}


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_a_cmyk_profile_is_applied(kind):
    for ink, naive, by_profile in ((0, 255, 0), (255, 0, 255)):
        image = Image.new("CMYK", (16, 16), (ink,) * 4)
        assert abs(decode(saved(image, kind)).pixels.astype(int) - naive).max() <= 1
        decoded = decode(saved(image, kind, icc_profile=no_ink_is_black()))
        assert abs(decoded.pixels.astype(int) - by_profile).max() <= 2
        assert "colour" in decoded.repairs


@pytest.mark.parametrize(
    "broken",
    [b"nonsense", LIKE_SRGB[:200], SWAPPED[:128] + bytes(400), LINEAR_GRAY, no_ink_is_black()],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_a_broken_profile_never_kills(kind, broken):
    lossless = {"lossless": True} if kind == "WEBP" else {}
    data = saved(gradient(), kind, icc_profile=broken, **lossless)
    image = decode(data)
    assert image.repairs == {"profile"}
    np.testing.assert_array_equal(image.pixels, decode(saved(gradient(), kind, **lossless)).pixels)


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
        decoded = decode(data)
        assert abs(decoded.pixels.astype(int) - expected).max() <= 2
        assert decoded.repairs == {"colour"}
        # Transform 2 in the Adobe marker makes it YCCK: the same ink in other numbers.
        assert simplejpeg.decode_jpeg_header(data)[2] == "CMYK"
        ycck = data.replace(b"Adobe\0\x64\0\0\0\0\0", b"Adobe\0\x64\0\0\0\0\2")
        assert ycck != data and simplejpeg.decode_jpeg_header(ycck)[2] == "YCCK"
        assert decode(ycck).pixels.shape == (16, 16, 3)


def test_lab_is_read():
    """L* 100 is white, L* 0 is black, and a* 0, b* 0 is gray."""
    lab = np.zeros((1, 3, 3), np.uint8)
    lab[0, :, 0] = 0, 128, 255
    decoded = decode(saved(Image.fromarray(lab, "LAB"), "TIFF"))
    assert decoded.pixels[0, 0].max() <= 1 and decoded.pixels[0, 2].min() >= 254
    assert abs(decoded.pixels[0, 1].astype(int) - 119).max() <= 2  # L* 50 is sRGB 119
    assert decoded.repairs == {"colour"}


def in_space(pixels, icc):
    """sRGB pixels in the space of a profile, as a camera would have stored them."""
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    target = ImageCms.ImageCmsProfile(io.BytesIO(icc))
    image = Image.fromarray(pixels)
    return ImageCms.profileToProfile(image, srgb, target, outputMode="RGB")


def by_pillow(image, icc):
    """What Pillow converts at full size."""
    flags = ImageCms.Flags.BLACKPOINTCOMPENSATION
    source, srgb = ImageCms.ImageCmsProfile(io.BytesIO(icc)), ImageCms.createProfile("sRGB")
    return np.asarray(ImageCms.profileToProfile(image, source, srgb, outputMode="RGB", flags=flags))


# Levels between both orders: the mean, and the 99.9th percentile.
ORDERS = {
    "Adobe RGB": (ADOBE_RGB, True, 0.3, 4),
    "Display P3": (DISPLAY_P3, True, 0.3, 4),
    "ProPhoto RGB": (PROPHOTO, False, 0, 0),
    "linear light": (LINEAR_RGB, False, 0, 0),
    "exchanged": (SWAPPED, False, 0, 0),
}


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("name", ORDERS)
def test_colours_are_those_of_a_conversion_at_full_size(photograph, name, kind):
    """Only profiles that mix neighbours as sRGB does are converted after resizing."""
    icc, later, mean, most = ORDERS[name]
    photograph = np.ascontiguousarray(photograph[::2, ::2])
    source = in_space(photograph, icc) if name != "exchanged" else Image.fromarray(photograph)
    lossless = {"lossless": True} if kind == "WEBP" else {}
    data = saved(source, kind, icc_profile=icc, **lossless)
    decoded, full = decode_unconverted(data, DecodingOptions(10**6)), by_pillow(source, icc)
    np.testing.assert_array_equal(decoded.in_srgb().pixels, full)
    assert (decoded.to_srgb is not None) is (later or name == "exchanged")
    for mode in ("shorter:75", "crop:45x30", "pad:50x50"):
        resize = parse_resize(mode)
        resized = resize_image(decoded.pixels, resize, 10**6, decoded.to_srgb).astype(int)
        off = abs(resized - resize_image(full, resize, 10**6))
        assert off.mean() <= mean and np.percentile(off, 99.9) <= most


def test_an_enlarged_image_is_converted_first(photograph):
    resize = parse_resize("shorter:500", enlarge=True)
    data = saved(in_space(photograph, ADOBE_RGB), "JPEG", icc_profile=ADOBE_RGB)
    decoded = decode_unconverted(data, DecodingOptions(10**6))
    np.testing.assert_array_equal(
        resize_image(decoded.pixels, resize, 10**6, decoded.to_srgb),
        resize_image(decoded.in_srgb().pixels, resize, 10**6),
    )


def test_a_record_has_the_converted_colours_everywhere(photograph):
    """What is stored, counted, filtered and compared is sRGB."""
    records = ImageRecords(ImageOptions(("in",), "out", dedup="near", encoding="raw", blank=1.0))
    small = photograph[:256, :256]  # of its own size
    stored = in_space(small, ADOBE_RGB)
    files = (
        saved(stored, "PNG", icc_profile=ADOBE_RGB),
        saved(Image.fromarray(by_pillow(stored, ADOBE_RGB)), "PNG"),
    )
    record, plain = (records.prepare(RawRecord("a", data, data)) for data in files)
    assert record.values == plain.values and record.fingerprint == plain.fingerprint
    assert record.statistics["pixel_sum"] == plain.statistics["pixel_sum"]
    thumbnails = [np.frombuffer(one.statistics["thumbnail"], np.uint8) for one in (record, plain)]
    assert abs(thumbnails[0].astype(int) - thumbnails[1]).max() <= 3


def test_the_cache_of_profiles_is_bounded(monkeypatch):
    judged = []
    monkeypatch.setattr(colour, "_profiles", {})
    monkeypatch.setattr(colour, "_CACHED_PROFILES", 4)
    monkeypatch.setattr(
        colour, "_judge", lambda *args: judged.append(args) or colour._Profile(None)
    )
    for number in (0, 1, 2, 3, 0, 4, 0, 1):  # 4 takes the place of 1, the least recently used
        assert colour.is_srgb(b"%d" % number, "RGB")
    assert [int(profile) for profile, _ in judged] == [0, 1, 2, 3, 4, 1]
    assert len(colour._profiles) == 4
