"""Damaged files, with and without --lenient, and the kinds of JPEG."""

from __future__ import annotations

import io
import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.decode.jpeg import MAX_SCANS

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


# --- damage


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "PPM"])
def test_lenient_keeps_what_there_is(kind):
    noise = Image.fromarray(np.random.default_rng(2).integers(1, 255, (64, 64, 3), np.uint8))
    data = saved(noise, kind, **({"interlace": 0} if kind == "GIF" else {}))
    half = data[: len(data) * 6 // 10]
    assert reason(half) in ("truncated", "corrupt")
    decoded = decode(half, lenient=True)
    assert decoded.repairs >= {"damage"}
    whole = decode(data, lenient=True)
    assert "damage" not in whole.repairs
    first = slice(-16, None) if kind == "BMP" else slice(16)  # a BMP begins at the bottom
    np.testing.assert_array_equal(decoded.pixels[first], whole.pixels[first])


def test_lenient_still_wants_a_image():
    assert reason(saved(gradient(), "PNG")[:45], lenient=True) in ("corrupt", "truncated")
    assert reason(b"\xff\xd8\xff\xe0 nothing", lenient=True) == "truncated"
    assert reason(b"", lenient=True) == "empty-file"


@pytest.mark.parametrize("mode", ["RGB", "CMYK"])
def test_what_lenient_could_not_decode_is_black_every_time(mode):
    """libjpeg-turbo leaves the rest of the buffer alone; once it was whatever lay in memory."""
    noise = np.random.default_rng(3).integers(1, 255, (64, 64, 3), np.uint8)
    data = saved(Image.fromarray(noise).convert(mode), "JPEG", progressive=True)
    second = data.index(b"\xff\xda", data.index(b"\xff\xda") + 2)
    bad = data[:second] + b"\xff\x5d" + data[second + 2 :]  # a marker that does not exist
    outcomes = set()
    for level in (0, 77, 200):
        junk = [np.full((64, 64, len(mode)), level, np.uint8) for _ in range(50)]
        del junk
        try:
            outcomes.add(decode(bad, lenient=True).pixels.tobytes())
        except Rejection as refusal:
            outcomes.add(refusal.reason)
    assert len(outcomes) == 1
    assert reason(bad) == "corrupt"


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
            decoded = decode(bytes(bad), lenient=True)
            assert decoded.repairs == {"damage"}
            assert decoded.pixels[0, :, 0].tolist() == [5, 6, 7, 8]


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
        decoded = decode(data + more)
        np.testing.assert_array_equal(decoded.pixels, decode(data).pixels)
        assert decoded.repairs == set()


def test_a_subsampling_without_a_name_is_left_to_pillow():
    """Factors 1 x 4 have as many blocks as 2 x 2; simplejpeg raises KeyError for them."""
    data = bytearray(saved(Image.new("RGB", (64, 64), (90, 60, 30)), "JPEG"))
    data[data.index(b"\xff\xc0") + 11] = 0x14
    decoded = decode(bytes(data))
    assert decoded.format == "JPEG" and decoded.repairs == {"coding"}
    assert abs(decoded.pixels.astype(int) - (90, 60, 30)).max() < 4
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
        with pytest.raises(Rejection, match=r"corrupt: .* more than one scan"):
            decode(many)


def test_data_of_other_formats_have_their_name_in_the_reason():
    for magic, name in (
        (b"\0\0\0\x0cJXL \r\n", "JPEG XL"),
        (b"8BPS\0\1", "PSD"),
        (b"%PDF-1.4", "PDF"),
    ):
        with pytest.raises(Rejection, match=f"unsupported-format: {name} is not read"):
            decode(magic + bytes(40))


def test_libtiff_prints_nothing(capfd):
    """Nor does it keep anything else from stderr."""
    data = bytearray(saved(gradient(), "TIFF", compression="tiff_adobe_deflate"))
    middle = data.index(b"\x78") + 2  # behind the header of zlib
    data[middle : middle + 8] = b"\xff" * 8
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(reason, [bytes(data)] * 8)) == {"corrupt"}
    os.write(2, b"another library\n")
    assert capfd.readouterr().err == "another library\n"
