"""Bytes of any picture to RGB pixels, or a reason why not.

libjpeg-turbo (simplejpeg) decodes JPEG: it releases the GIL, can be told to refuse what decodes
only with warnings, and its accurate integer DCT gives the same pixels with and without SIMD. Pillow
reads the rest: other formats, and JPEG in CMYK. Each format has one decoder, so a picture has one
meaning; OpenCV only resizes.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image, UnidentifiedImageError

from beam_jobs.refusal import Refusal

Pixels = npt.NDArray[np.uint8]

# Formats that Pillow decodes by itself, safely: no external program (EPS), no documents (PDF).
# init() loads all plugins now: naming one that is not loaded yet is a KeyError.
Image.init()
PILLOW_FORMATS = tuple(
    name
    for name in ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "AVIF")
    if name in Image.OPEN
)

_ORIENTATION_TAG = 0x0112
_SIXTEEN_BIT_MODES = ("I;16", "I;16L", "I;16B", "I;16N")

_MAGIC = {
    b"\x89PNG": "PNG",
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"\xff\xd8\xff": "JPEG",
}

# Pillow warns where we refuse (its threshold is ours), and of broken metadata, which we ignore.
logging.getLogger("PIL").setLevel(logging.CRITICAL)
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", module=r"PIL\..*")


class Picture(NamedTuple):
    """A decoded picture, upright.

    Attributes:
        pixels: [height, width, 3] uint8, RGB, C-contiguous.
        format: What the bytes are, whatever the file name says: "JPEG", "PNG", ...
        width: As stored in the file, before orientation is applied.
        height: Likewise.
    """

    pixels: Pixels
    format: str
    width: int
    height: int


def decode_image(data: bytes, max_pixels: int) -> Picture:
    """The upright RGB picture in the data.

    Args:
        data: The whole file.
        max_pixels: Pictures that declare more are refused before any pixel is decoded.

    Raises:
        Refusal: The data is empty, no picture, damaged, too large, or of a kind with no clear RGB.
    """
    if not data:
        raise Refusal("empty-file", "the file has no bytes")
    if simplejpeg.is_jpeg(data):
        picture = _decode_jpeg(data, max_pixels)
        if picture is not None:
            return picture
    return _decode_with_pillow(data, max_pixels)


def _decode_jpeg(data: bytes, max_pixels: int) -> Picture | None:
    """None for the kinds of JPEG that are Pillow's business."""
    try:
        height, width, colour, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return None
    if colour not in ("YCbCr", "RGB", "Gray", "GRAY"):
        return None
    _check_pixels(width, height, max_pixels)
    try:
        # Accurate DCT and upsampling: the fast ones are 5 % faster and not the same everywhere.
        pixels = simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False, strict=True)
    except ValueError as error:
        raise Refusal(*_jpeg_reason(str(error))) from error
    if _has_exif_segment(data):
        pixels = _upright(pixels, _orientation(data))
    return Picture(pixels, "JPEG", width, height)


def _jpeg_reason(message: str) -> tuple[str, str]:
    if "remature end" in message or "Unexpected end" in message:
        return "truncated", f"the picture ends before its last line: {message}"
    return "corrupt", f"libjpeg-turbo: {message}"


def _has_exif_segment(data: bytes) -> bool:
    """Whether a JPEG has Exif before its first scan; most have none, and Pillow is slow to ask."""
    position = 2  # behind the start of image
    while data[position : position + 1] == b"\xff" and position + 10 <= len(data):
        marker = data[position + 1]
        if marker == 0xE1 and data[position + 4 : position + 10] == b"Exif\0\0":
            return True
        if marker == 0xDA:  # start of scan
            return False
        if marker == 0xFF:  # padding
            position += 1
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return False


def _orientation(data: bytes) -> int:
    """EXIF orientation in 1..8; 1 when the tag is absent or broken: metadata never kills a file."""
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "MPO")) as image:
            return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # Pillow's EXIF parser raises whatever struct, int and its own code raise.
        return 1


def _upright(pixels: Pixels, orientation: int) -> Pixels:
    """Undoes an EXIF orientation (Exif 2.32, section 4.6.4, tag 274)."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def _decode_with_pillow(data: bytes, max_pixels: int) -> Picture:
    try:
        with Image.open(io.BytesIO(data), formats=PILLOW_FORMATS) as image:
            _check_pixels(*image.size, max_pixels)
            image.load()
            format_name = image.format or "unknown"
            orientation = image.getexif().get(_ORIENTATION_TAG, 1) if _has_exif(image) else 1
            pixels = _upright(_to_rgb(image), orientation if isinstance(orientation, int) else 1)
            return Picture(pixels, format_name, *image.size)
    except Refusal:
        raise
    except Image.DecompressionBombError as error:
        raise Refusal("too-many-pixels", str(error)) from error
    except UnidentifiedImageError as error:
        raise Refusal(*_unidentified(data)) from error
    except MemoryError as error:
        raise Refusal("too-many-pixels", "decoding it takes more memory than there is") from error
    except Exception as error:  # A damaged file may raise anything inside Pillow's parsers.
        raise Refusal(*_pillow_reason(error)) from error


def _unidentified(data: bytes) -> tuple[str, str]:
    for magic, name in _MAGIC.items():
        if data.startswith(magic):
            return "corrupt", f"it begins like a {name}, but its header makes no sense"
    return "not-an-image", f"the content is none of {', '.join(PILLOW_FORMATS)}"


def _pillow_reason(error: Exception) -> tuple[str, str]:
    # Messages are part of the set, so they must not differ from run to run as addresses do.
    message = re.sub(r"<[^>]* at 0x[0-9a-f]+>", "the data", str(error)) or type(error).__name__
    if "truncated" in message.lower():
        return "truncated", f"the file ends before the picture does (Pillow: {message})"
    if message.startswith("Unsupported"):
        return "unsupported-format", f"Pillow: {message}"
    return "corrupt", f"the data cannot be decoded (Pillow: {message})"


def _has_exif(image: Image.Image) -> bool:
    try:
        return bool(image.getexif())
    except Exception:  # As in _orientation.
        return False


def _check_pixels(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise Refusal(
            "too-many-pixels",
            f"the file declares {width} x {height} pixels, more than --max-pixels {max_pixels}",
        )


def _to_rgb(image: Image.Image) -> Pixels:
    """RGB of any mode: the first frame, alpha laid over white, 16 bits brought to 8."""
    if image.mode in _SIXTEEN_BIT_MODES:
        # Pillow's own conversion clips at 255, which turns most of a 16-bit picture white.
        gray = (np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)
        return np.repeat(gray[:, :, np.newaxis], 3, axis=2)
    if image.mode in ("I", "F", "LAB"):
        raise Refusal(
            "unsupported-mode",
            f"there is no one right way from pixels of mode {image.mode} to 8-bit RGB",
        )
    if image.has_transparency_data:
        image = image.convert("RGBA")
        background = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(background, image)
    return np.ascontiguousarray(np.asarray(image.convert("RGB")))
