"""Everything but JPEG, with Pillow; and the JPEG that libjpeg-turbo's simple interface declines.

It runs under a time limit (time_limit.py): Pillow's parsers are partly Python, and its decoders
cannot be interrupted.
"""

from __future__ import annotations

import io
import logging
import re
import warnings

from PIL import AvifImagePlugin, Image, ImageFile, UnidentifiedImageError

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decoding_options import DecodingOptions, check_pixels
from beam_jobs.images.orientation import TURNED, apply_orientation, turn_upright
from beam_jobs.images.picture import Picture, Pixels
from beam_jobs.images.png_chunks import check_png
from beam_jobs.images.to_rgb import to_rgb

# Formats that Pillow decodes by itself, safely: no external program (EPS), no documents (PDF).
# init() loads all plugins now: naming one that is not loaded yet is a KeyError.
Image.init()
PILLOW_FORMATS = tuple(
    name
    for name in ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "AVIF")
    if name in Image.OPEN
)

_JPEGS = ("JPEG", "MPO")  # an MPO is a JPEG with others behind it
_ORIENTATION_TAG = 0x0112
_PNG = b"\x89PNG\r\n\x1a\n"

# First bytes (from a place on) of what we read, and of what people take for it.
_MAGIC = (
    (0, b"\x89PNG", "PNG"),
    (0, b"GIF8", "GIF"),
    (0, b"BM", "BMP"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"\xff\xd8\xff", "JPEG"),
    (8, b"WEBP", "WEBP"),
    (4, b"ftypavi", "AVIF"),
)
_UNREAD = (
    (4, b"ftypheic", "HEIC"),
    (4, b"ftypheix", "HEIC"),
    (4, b"ftypmif1", "HEIF"),
    (0, b"\xff\x0a", "JPEG XL"),
    (4, b"JXL \r\n", "JPEG XL"),
    (4, b"jP  \r\n", "JPEG 2000"),
    (0, b"8BPS", "PSD"),
    (0, b"%PDF", "PDF"),
    (0, b"\0\0\1\0", "ICO"),
)

# Pillow warns where we refuse (its threshold is ours), and of broken metadata, which we ignore.
logging.getLogger("PIL").setLevel(logging.CRITICAL)
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", module=r"PIL\..*")
# Beam already uses every core; threads inside a decoder would only compete with it.
AvifImagePlugin.DEFAULT_MAX_THREADS = 1


def decode_with_pillow(data: bytes, options: DecodingOptions) -> Picture:
    """The picture.

    Raises:
        Rejection: It is damaged, declares too much, or is of a kind with no clear RGB.
    """
    repairs: set[str] = set()
    try:
        if data.startswith(_PNG):
            data, damaged = check_png(data, options.lenient)
            repairs |= {"damage"} if damaged else set()
        with Image.open(io.BytesIO(data), formats=PILLOW_FORMATS) as image:
            size = image.size
            check_pixels(*size, options)
            _check_frames(image, options, repairs)
            _load(image, options, repairs)
            pixels = to_rgb(image, data, options.background, repairs)
            pixels = _upright(image, pixels, repairs)
            name = "JPEG" if image.format in _JPEGS else image.format or "unknown"
            return Picture(pixels, name, *size, frozenset(repairs))
    except Rejection:
        raise
    except Image.DecompressionBombError as error:
        raise Rejection("too-many-pixels", str(error)) from error
    except UnidentifiedImageError as error:
        raise Rejection(*_unidentified(data)) from error
    except MemoryError as error:
        raise Rejection("too-many-pixels", "decoding it takes more memory than there is") from error
    except Exception as error:  # A damaged file may raise anything inside Pillow's parsers.
        raise Rejection(*_reason(error)) from error


def _check_frames(image: ImageFile.ImageFile, options: DecodingOptions, repairs: set[str]) -> None:
    """Opening has placed Pillow at the first frame, where loading it stays."""
    try:
        animated = bool(getattr(image, "is_animated", False))
    except Exception:  # The second frame is damaged, or a bomb: there is one, and it is not ours.
        animated = True
    if image.format in _JPEGS:
        repairs.add("coding")
        return  # the other pictures in a JPEG are previews and gain maps of the first
    if not animated:
        return
    if options.animated == "refuse":
        raise Rejection("animated", "it has several frames or pages, and --animated is refuse")
    repairs.add("frames")


def _load(image: ImageFile.ImageFile, options: DecodingOptions, repairs: set[str]) -> None:
    """Decodes all of it, or with --lenient what there is.

    Pillow's own switch for that, LOAD_TRUNCATED_IMAGES, would hold for every thread. But when a
    decoder fails, the lines that it had finished are in the image already, above black ones.
    """
    orientation = _tiff_orientation(image)
    try:
        image.load()
        if orientation in TURNED and _tiff_orientation(image) != orientation:
            repairs.add("orientation")  # for TIFF, and nothing else, Pillow has seen to it itself
    except (OSError, ValueError, EOFError, SyntaxError):
        if not options.lenient or image._im is None:
            raise
        image.tile = []  # nothing left to load
        if image.getbbox() is None:
            raise  # not a line
        repairs.add("damage")


def _upright(image: ImageFile.ImageFile, pixels: Pixels, repairs: set[str]) -> Pixels:
    if image.format == "TIFF":
        return apply_orientation(pixels, _tiff_orientation(image), repairs)
    exif = image.info.get("exif")
    return turn_upright(pixels, exif if isinstance(exif, bytes) else None, repairs)


def _tiff_orientation(image: ImageFile.ImageFile) -> object:
    tags = getattr(image, "tag_v2", {})
    return tags.get(_ORIENTATION_TAG)


def _unidentified(data: bytes) -> tuple[str, str]:
    for start, magic, name in _MAGIC:
        if data.startswith(magic, start):
            return "corrupt", f"it begins like a {name}, but its header makes no sense"
    for start, magic, name in _UNREAD:
        if data.startswith(magic, start):
            return "unsupported-format", f"{name} is not read; convert it to PNG or JPEG"
    return "not-an-image", f"the content is none of {', '.join(PILLOW_FORMATS)}"


def _reason(error: Exception) -> tuple[str, str]:
    # Messages are part of the set, so they must not differ from run to run as addresses do.
    message = re.sub(r"<[^>]* at 0x[0-9a-f]+>", "the data", str(error)) or type(error).__name__
    if "truncated" in message.lower():
        return "truncated", f"the file ends before the picture does (Pillow: {message})"
    if "too large for" in message or "Too much memory" in message:
        return "decompression-bomb", f"metadata unpack to more than they may (Pillow: {message})"
    if message.startswith("Unsupported"):
        return "unsupported-format", f"Pillow: {message}"
    return "corrupt", f"the data cannot be decoded (Pillow: {message})"
