"""JPEG, with libjpeg-turbo (simplejpeg), and the segments before its first scan.

libjpeg-turbo releases the interpreter's lock, can reject what decodes only with warnings, and its
accurate integer DCT gives the same pixels with and without SIMD. Its time is bounded by the pixels
and the scans that a file declares, so it runs in the calling thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import simplejpeg
from PIL import Image

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.colour import ToSrgb, later_to_srgb, to_srgb
from beam_jobs.images.decode.base import DecodedImage, DecodingOptions, Pixels, check_pixels
from beam_jobs.images.decode.orientation import turn_upright

# libjpeg-turbo's own fuzzers stop at 500 (fuzz/decompress.cc); real files have about 10. A scan of
# 100 bytes may cover every block of an image, and the standard allows any number of them:
# https://libjpeg-turbo.org/pmwiki/uploads/About/TwoIssueswiththeJPEGStandard.pdf
MAX_SCANS = 500

_SCAN, _END = b"\xff\xda", b"\xff\xd9"

# Markers and segments: ITU-T T.81, annex B.
BASELINE, EXTENDED, PROGRESSIVE = 0xC0, 0xC1, 0xC2  # start of frame, Huffman coded
PLAIN_CODINGS = (BASELINE, EXTENDED, PROGRESSIVE)
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # start of frame, of any coding
_BARE = frozenset([0x01, *range(0xD0, 0xD8)])  # markers without a segment
_SOS, _APP1, _APP2 = 0xDA, 0xE1, 0xE2
_EXIF, _ICC = b"Exif\0\0", b"ICC_PROFILE\0"


def decode_jpeg(data: bytes, options: DecodingOptions) -> DecodedImage | None:
    """Decodes a JPEG; None for the rare subsampling that only Pillow decodes.

    Raises:
        Rejection: It is damaged, declares too much, or is of a kind without a clear RGB.
    """
    repairs: set[str] = set()
    header = read_jpeg_header(data)
    if header is not None and header.icc == b"":
        # A broken profile is an error to libjpeg-turbo, but does not affect the pixels.
        data = without_profile(data)
        header = read_jpeg_header(data)
        repairs.add("profile")
    try:
        height, width, colour, _ = _header(data, options, repairs)
    except KeyError:  # simplejpeg has no name for a subsampling that libjpeg-turbo knows
        return None
    except Rejection as rejection:
        if "subsampling" in rejection.detail:
            return None
        raise
    check_pixels(width, height, options)
    scans = count_scans(data, header)
    if scans > MAX_SCANS:
        raise Rejection("too-many-scans", f"it has {scans} scans, more than {MAX_SCANS}")
    convert = None
    if colour in ("CMYK", "YCCK"):
        # Stored inverted, as Adobe began and all readers expect.
        ink = 255 - _decode(data, "CMYK", (height, width, 4), options, repairs)
        image = Image.frombytes("CMYK", (width, height), ink.tobytes())
        pixels = _from_cmyk(image, header, repairs)
    else:
        pixels = _decode(data, "RGB", (height, width, 3), options, repairs)
        if header is not None and header.icc is not None:
            pixels, convert = _without_profile(pixels, colour, header.icc, repairs)
    if header is not None and header.exif is not None:
        pixels = turn_upright(pixels, header.exif, repairs)
    if header is None or header.coding not in PLAIN_CODINGS or colour == "RGB":
        repairs.add("coding")
    return DecodedImage(pixels, "JPEG", width, height, frozenset(repairs), convert)


def _header(data: bytes, options: DecodingOptions, repairs: set[str]) -> tuple[int, int, str, str]:
    """Height, width, colour space and subsampling."""
    try:
        return simplejpeg.decode_jpeg_header(data)
    except ValueError as error:
        if not options.lenient:
            raise Rejection(*_reason(str(error))) from error
    try:
        header = simplejpeg.decode_jpeg_header(data, strict=False)
    except ValueError as error:
        raise Rejection(*_reason(str(error))) from error
    repairs.add("damage")
    return header


def _decode(
    data: bytes,
    colour: str,
    shape: tuple[int, int, int],
    options: DecodingOptions,
    repairs: set[str],
) -> Pixels:
    """All pixels without a warning; with --lenient, those that decode, above black lines."""
    # Accurate DCT and upsampling: the fast ones are 5 % faster and not the same everywhere.
    try:
        return simplejpeg.decode_jpeg(data, colour, fastdct=False, fastupsample=False)
    except MemoryError as error:
        raise Rejection("too-many-pixels", "decoding it takes more memory than there is") from error
    except ValueError as error:
        reason = _reason(str(error))
        if not options.lenient:
            raise Rejection(*reason) from error
    # Not strict, errors are like warnings, and after one the rest of the buffer is left unchanged:
    # it must not be memory that something else has used.
    pixels = np.zeros(shape, np.uint8)
    try:
        simplejpeg.decode_jpeg(
            data, colour, fastdct=False, fastupsample=False, strict=False, buffer=pixels
        )
    except ValueError as error:
        raise Rejection(*_reason(str(error))) from error
    if not pixels.any():
        raise Rejection(*reason)
    repairs.add("damage")
    return pixels


def _reason(message: str) -> tuple[str, str]:
    if "remature end of JPEG" in message or "Unexpected end" in message:
        # Not reworded: details of rejections are part of the root hash of a set.
        return "truncated", f"the picture ends before its last line: {message}"
    if "Unsupported" in message and "marker" not in message:  # 12 bits, and the like
        return "unsupported-format", f"libjpeg-turbo: {message}"
    return "corrupt", f"libjpeg-turbo: {message}"


def count_scans(data: bytes, header: JpegHeader | None) -> int:
    """Number of scans of a JPEG; 1 without counting where the first must be the only one.

    In coded pixels 0xFF is always followed by 0 or a restart marker, so the bytes of a marker are a
    marker anywhere between the first scan and the end of the image.
    """
    start = 0
    if header is not None:
        if header.interleaved and header.coding in (BASELINE, EXTENDED):
            return 1
        start = header.scan
    end = data.find(_END, start)
    return data.count(_SCAN, start, end if end >= 0 else len(data))


def _from_cmyk(image: Image.Image, header: JpegHeader | None, repairs: set[str]) -> Pixels:
    repairs.add("colour")
    converted = to_srgb(image, header.icc if header is not None else None, repairs)
    return np.ascontiguousarray(np.asarray(converted.convert("RGB")))


def _without_profile(
    pixels: Pixels, colour: str, profile: bytes, repairs: set[str]
) -> tuple[Pixels, ToSrgb | None]:
    if colour.upper() != "GRAY":
        return later_to_srgb(pixels, profile, repairs)
    image = Image.fromarray(pixels[:, :, 0])
    converted = to_srgb(image, profile, repairs)
    return pixels if converted is image else np.ascontiguousarray(np.asarray(converted)), None


class JpegHeader(NamedTuple):
    """The segments before the pixels.

    Attributes:
        coding: Second byte of the start of frame marker: BASELINE, PROGRESSIVE, ...
        precision: Bits a sample.
        interleaved: The first scan has all components, so a baseline JPEG has no other scan.
        scan: Offset of the marker of the first scan, in bytes.
        exif: The first Exif segment from "Exif" on.
        icc: The ICC profile, of all its segments; empty if one is missing, None if there is none.
    """

    coding: int
    precision: int
    interleaved: bool
    scan: int
    exif: bytes | None
    icc: bytes | None


def read_jpeg_header(data: bytes) -> JpegHeader | None:
    """The header; None where the segments are invalid, for which libjpeg-turbo has a message."""
    coding = precision = components = 0
    exif: bytes | None = None
    profile: list[bytes] = []
    for marker, start, end in _segments(data):
        if marker == _SOS:
            interleaved = data[start + 4] == components
            return JpegHeader(coding, precision, interleaved, start, exif, _joined(profile))
        if marker in _FRAMES:
            coding, precision, components = marker, data[start + 4], data[start + 9]
        elif marker == _APP1 and exif is None and data.startswith(_EXIF, start + 4):
            exif = data[start + 4 : end]
        elif marker == _APP2 and data.startswith(_ICC, start + 4):
            profile.append(data[start + 16 : end])
    return None


def without_profile(data: bytes) -> bytes:
    """The same JPEG without the segments of its ICC profile."""
    kept, position = [], 0
    for marker, start, end in _segments(data):
        if marker == _APP2 and data.startswith(_ICC, start + 4):
            kept.append(data[position:start])
            position = end
    return b"".join([*kept, data[position:]])


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, start, end) of every segment up to the first scan, including it."""
    position = 2  # behind the start of image
    last = len(data) - 10  # the segments read here are longer
    while position <= last and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # padding
            position += 1
        elif marker in _BARE:
            position += 2
        else:
            end = position + 2 + (data[position + 2] << 8 | data[position + 3])
            yield marker, position, end
            if marker == _SOS:
                return
            position = end


def _joined(segments: list[bytes]) -> bytes | None:
    """A profile from its segments: number, count, bytes (ICC.1:2022, annex B.4)."""
    if not segments:
        return None
    segments.sort(key=lambda segment: segment[:1])
    expected = [bytes([number + 1, len(segments)]) for number in range(min(len(segments), 255))]
    if [segment[:2] for segment in segments] != expected:
        return b""
    return b"".join(segment[2:] for segment in segments)
