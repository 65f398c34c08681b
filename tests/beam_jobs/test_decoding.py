"""What is repaired while decoding, each against values that are known without the decoder."""

from __future__ import annotations

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageCms

from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.jpeg import MAX_SCANS
from beam_jobs.refusal import Refusal

SIZE = 16


def decode(data, **options):
    return decode_image(data, DecodingOptions(**({"max_pixels": 1_000_000} | options)))


def reason(data, **options):
    with pytest.raises(Refusal) as refusal:
        decode(data, **options)
    assert not refusal.value.filtered
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


# --- colour


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


# --- alpha


@pytest.mark.parametrize("background", [(255, 255, 255), (10, 200, 90)])
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "GIF"])
def test_the_background_shows_through(kind, background):
    image = Image.new("RGBA", (16, 16), (255, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 8, 16))
    lossless = {"lossless": True} if kind == "WEBP" else {}
    found = decode(saved(image, kind, **lossless), background=background)
    assert np.all(found.pixels[:, :8] == background)
    assert np.all(found.pixels[:, 8:] == (255, 0, 0))
    assert found.repairs == {"alpha"}


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
    found = decode(data, background=background).pixels[0].astype(int)
    for pixel, colour in zip(found, colours, strict=True):
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
        found = decode(data)
        assert np.all(np.diff(found.pixels[:, :, 0].ravel().astype(int)) >= 0)
        np.testing.assert_array_equal(found.pixels[:, :, 1], rows >> 8)


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
    found = decode(twelve).pixels  # the bytes 34 12 34 12 are the 12-bit samples 341 and 234
    assert found[0, 0, 0] == 0x34 and found[0, 1, 0] == 0x23


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
    found = decode(saved(stored, kind, exif=exif))
    assert found.pixels.shape == (32, 48, 3)
    assert abs(found.pixels.astype(int) - np.asarray(upright)).mean() < 6
    assert found.repairs == ({"orientation"} if orientation > 1 else set())


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    ("exif", "repairs"),
    [(b"Exif\0\0nonsense", {"exif"}), (b"Exif\0\0II*\0\xff\xff\xff\x7f", {"exif"}), (b"", set())],
)
def test_broken_exif_is_ignored(kind, exif, repairs):
    assert decode(saved(gradient(), kind, exif=exif)).repairs in (repairs, set())


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
    found = decode(data)
    assert abs(found.pixels.astype(int) - (200, 0, 0)).max() < 12
    assert found.repairs == {"frames"}
    assert reason(data, animated="refuse") == "animated"
    single = saved(Image.new("RGB", (16, 16)), kind)
    assert decode(single, animated="refuse").repairs == set()


def test_the_pictures_behind_a_jpeg_are_not_frames():
    data = frames("MPO")
    found = decode(data, animated="refuse")
    assert found.format == "JPEG" and found.repairs == set()


# --- damage


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "PPM"])
def test_lenient_keeps_what_there_is(kind):
    noise = Image.fromarray(np.random.default_rng(2).integers(1, 255, (64, 64, 3), np.uint8))
    data = saved(noise, kind, **({"interlace": 0} if kind == "GIF" else {}))
    half = data[: len(data) * 6 // 10]
    assert reason(half) in ("truncated", "corrupt")
    found = decode(half, lenient=True)
    assert found.repairs >= {"damage"}
    whole = decode(data, lenient=True)
    assert "damage" not in whole.repairs
    first = slice(-16, None) if kind == "BMP" else slice(16)  # a BMP begins at the bottom
    np.testing.assert_array_equal(found.pixels[first], whole.pixels[first])


def test_lenient_still_wants_a_picture():
    assert reason(saved(gradient(), "PNG")[:45], lenient=True) in ("corrupt", "truncated")
    assert reason(b"\xff\xd8\xff\xe0 nothing", lenient=True) == "truncated"
    assert reason(b"", lenient=True) == "empty-file"


def test_a_jpeg_that_decodes_only_with_warnings():
    data = saved(gradient(), "JPEG")
    at = data.index(b"\xff\xda") + 14
    bad = data[:at] + b"\xff\xd0" + data[at:]  # a restart marker out of place
    assert reason(bad) == "corrupt"
    assert decode(bad, lenient=True).repairs == {"damage"}


def test_a_png_with_a_wrong_checksum():
    data = png(8, 0, bytes([5, 6, 7, 8]), (b"tEXt", b"Title\0hat"))
    text, pixels = data.index(b"hat"), data.index(b"IDAT") + 6
    for position, keeps in ((text, True), (pixels, False)):
        bad = bytearray(data)
        bad[position] ^= 1
        assert reason(bytes(bad)) == "corrupt"
        if keeps:
            found = decode(bytes(bad), lenient=True)
            assert found.repairs == {"damage"}
            assert found.pixels[0, :, 0].tolist() == [5, 6, 7, 8]


def test_a_text_chunk_that_unpacks_to_a_gigabyte_is_refused():
    """1 MiB is Pillow's bound for one chunk; the file here has 66 kB."""
    bomb = b"Comment\0\0" + zlib.compress(bytes(64 << 20))
    assert reason(png(8, 0, bytes(4), (b"zTXt", bomb))) == "decompression-bomb"


# --- kinds of JPEG


@pytest.mark.parametrize(
    ("options", "repairs"),
    [
        ({}, set()),
        ({"progressive": True}, set()),
        ({"subsampling": 0}, set()),
        ({"optimize": True}, set()),
        ({"restart_marker_blocks": 2}, set()),
        ({"keep_rgb": True}, {"coding"}),
    ],
)
def test_which_jpegs_need_no_change(options, repairs):
    assert decode(saved(gradient(), "JPEG", **options)).repairs == repairs
    if "keep_rgb" not in options:
        assert decode(saved(gradient("L"), "JPEG", **options)).repairs == repairs


def test_bytes_behind_a_jpeg_do_no_harm():
    data = saved(gradient(), "JPEG")
    for more in (bytes(100), b"\xff\xd9", data, b"ftypmp42" * 50):
        found = decode(data + more)
        np.testing.assert_array_equal(found.pixels, decode(data).pixels)
        assert found.repairs == set()


def test_a_subsampling_without_a_name_is_left_to_pillow():
    """Factors 1 x 4 have as many blocks as 2 x 2; simplejpeg raises KeyError for them."""
    data = bytearray(saved(Image.new("RGB", (64, 64), (90, 60, 30)), "JPEG"))
    data[data.index(b"\xff\xc0") + 11] = 0x14
    found = decode(bytes(data))
    assert found.format == "JPEG" and found.repairs == {"coding"}
    assert abs(found.pixels.astype(int) - (90, 60, 30)).max() < 4
    data[data.index(b"\xff\xc0") + 11] = 0x42
    assert decode(bytes(data)).repairs == {"coding"}


@pytest.mark.parametrize("progressive", [True, False])
def test_too_many_scans_are_refused(progressive):
    data = saved(gradient(), "JPEG", progressive=progressive)
    start, end = data.index(b"\xff\xda"), data.index(b"\xff\xd9")
    # A baseline scan of one component, so that others may follow it; behind one of all components
    # libjpeg-turbo accepts no other.
    scan = data[start:end] if progressive else bytes.fromhex("ffda0008010100003f00") + bytes(40)
    assert reason(data[:start] + scan * (MAX_SCANS + 1) + data[end:]) == "too-many-scans"
    if not progressive:
        many = data[:end] + data[start:end] * (MAX_SCANS + 1) + data[end:]
        with pytest.raises(Refusal, match=r"corrupt: .* more than one scan"):
            decode(many)


def test_data_of_other_formats_have_their_name_in_the_reason():
    for magic, name in (
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (b"8BPS\0\1", "PSD"),
        (b"%PDF-1.4", "PDF"),
    ):
        with pytest.raises(Refusal, match=f"unsupported-format: {name} is not read"):
            decode(magic + bytes(40))
