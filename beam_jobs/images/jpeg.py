"""JPEG, with libjpeg-turbo (simplejpeg).

It releases the interpreter's lock, can be told to refuse what decodes only with warnings, and its
accurate integer DCT gives the same pixels with and without SIMD. Its time is bounded by the pixels
and the scans that a file declares, so it runs in the thread that asks.
"""

from __future__ import annotations

import numpy as np
import simplejpeg
from PIL import Image

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.colour import to_srgb
from beam_jobs.images.decoding_options import DecodingOptions, check_pixels
from beam_jobs.images.jpeg_header import (
    BASELINE,
    EXTENDED,
    PROGRESSIVE,
    JpegHeader,
    read_jpeg_header,
    without_profile,
)
from beam_jobs.images.orientation import turn_upright
from beam_jobs.images.picture import Picture, Pixels

# libjpeg-turbo's own fuzzers stop at 500 (fuzz/decompress.cc); real files have about 10. A scan of
# 100 bytes may cover every block of a picture, and the standard allows any number of them:
# https://libjpeg-turbo.org/pmwiki/uploads/About/TwoIssueswiththeJPEGStandard.pdf
MAX_SCANS = 500

_SCAN, _END = b"\xff\xda", b"\xff\xd9"
PLAIN_CODINGS = (BASELINE, EXTENDED, PROGRESSIVE)


def decode_jpeg(data: bytes, options: DecodingOptions) -> Picture | None:
    """The picture; None for the rare subsampling that only Pillow decodes.

    Raises:
        Rejection: It is damaged, declares too much, or is of a kind with no clear RGB.
    """
    repairs: set[str] = set()
    header = read_jpeg_header(data)
    if header is not None and header.icc == b"":
        # A profile in disorder is an error to libjpeg-turbo, but no damage to the picture.
        data = without_profile(data)
        header = read_jpeg_header(data)
        repairs.add("profile")
    try:
        height, width, colour, _ = _header(data, options, repairs)
    except KeyError:  # simplejpeg has no name for a subsampling that libjpeg-turbo knows
        return None
    except Rejection as refusal:
        if "subsampling" in refusal.detail:
            return None
        raise
    check_pixels(width, height, options)
    scans = count_scans(data, header)
    if scans > MAX_SCANS:
        raise Rejection("too-many-scans", f"it has {scans} scans, more than {MAX_SCANS}")
    if colour in ("CMYK", "YCCK"):
        # As stored: ink that is not there. Adobe began that, and now everybody reads CMYK so.
        ink = 255 - _decode(data, "CMYK", (height, width, 4), options, repairs)
        image = Image.frombytes("CMYK", (width, height), ink.tobytes())
        pixels = _from_cmyk(image, header, repairs)
    else:
        pixels = _decode(data, "RGB", (height, width, 3), options, repairs)
        if header is not None and header.icc is not None:
            pixels = _without_profile(pixels, colour, header.icc, repairs)
    if header is not None and header.exif is not None:
        pixels = turn_upright(pixels, header.exif, repairs)
    if header is None or header.coding not in PLAIN_CODINGS or colour == "RGB":
        repairs.add("coding")
    return Picture(pixels, "JPEG", width, height, frozenset(repairs))


def _header(data: bytes, options: DecodingOptions, repairs: set[str]) -> tuple[int, int, str, str]:
    """Height, width, colour space and subsampling."""
    try:
        return simplejpeg.decode_jpeg_header(data)
    except ValueError as error:
        if not options.lenient:
            raise Rejection(*_reason(str(error))) from error
    try:
        found = simplejpeg.decode_jpeg_header(data, strict=False)
    except ValueError as error:
        raise Rejection(*_reason(str(error))) from error
    repairs.add("damage")
    return found


def _decode(
    data: bytes,
    colour: str,
    shape: tuple[int, int, int],
    options: DecodingOptions,
    repairs: set[str],
) -> Pixels:
    """All of it without a warning, or, with --lenient, what there is above black lines."""
    # Accurate DCT and upsampling: the fast ones are 5 % faster and not the same everywhere.
    try:
        return simplejpeg.decode_jpeg(data, colour, fastdct=False, fastupsample=False)
    except MemoryError as error:
        raise Rejection("too-many-pixels", "decoding it takes more memory than there is") from error
    except ValueError as error:
        reason = _reason(str(error))
        if not options.lenient:
            raise Rejection(*reason) from error
    # Errors are no longer told from warnings, and after one the rest of the buffer is left as it
    # was: it must not be memory that something else has used.
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
        return "truncated", f"the picture ends before its last line: {message}"
    if "Unsupported" in message and "marker" not in message:  # 12 bits, and the like
        return "unsupported-format", f"libjpeg-turbo: {message}"
    return "corrupt", f"libjpeg-turbo: {message}"


def count_scans(data: bytes, header: JpegHeader | None) -> int:
    """How many scans a JPEG has; 1 without counting, where the first is the only one that can be.

    In coded pixels 0xFF is always followed by 0 or a restart marker, so the bytes of a marker are a
    marker wherever they lie between the first scan and the end of the picture.
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


def _without_profile(pixels: Pixels, colour: str, profile: bytes, repairs: set[str]) -> Pixels:
    image = Image.fromarray(pixels[:, :, 0] if colour.upper() == "GRAY" else pixels)
    converted = to_srgb(image, profile, repairs)
    return pixels if converted is image else np.ascontiguousarray(np.asarray(converted))
