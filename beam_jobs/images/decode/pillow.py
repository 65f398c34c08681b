"""Everything but JPEG, with Pillow; and JPEG that libjpeg-turbo's simple interface does not decode.

It runs under a time limit (`time_limit`): Pillow's parsers are partly Python, and its decoders
cannot be interrupted. Pillow checks only some checksums of a PNG, so `check_png` checks them all.
"""

from __future__ import annotations

import ctypes
import io
import logging
import re
import warnings
import zlib

from PIL import AvifImagePlugin, Image, ImageFile, UnidentifiedImageError

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode import heif
from beam_jobs.images.decode.base import DecodedImage, DecodingOptions, Pixels, check_pixels
from beam_jobs.images.decode.orientation import (
    ORIENTATION_TAG,
    TURNED,
    apply_orientation,
    turn_upright,
)
from beam_jobs.images.decode.to_rgb import to_rgb

# Formats that Pillow decodes safely by itself: no external program (EPS), no documents (PDF).
# init() loads all plugins now: naming one that is not loaded yet is a KeyError.
Image.init()
PILLOW_FORMATS = tuple(
    name
    for name in ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "AVIF")
    if name in Image.OPEN
)

_JPEGS = ("JPEG", "MPO")  # an MPO is a JPEG with others behind it
_NAMES = {"MPO": "JPEG", heif.FORMAT: "HEIC"}  # Pillow's name: ours, where they differ
_PNG = b"\x89PNG\r\n\x1a\n"

_SIGNATURE_BYTES = len(_PNG)
_CHUNK_FRAME_BYTES = 12  # length, type and checksum around a chunk's data
_ANCILLARY = 0x20  # bit of the first letter: the image can be decoded without the chunk

# Bytes at an offset that identify formats that are read, and common ones that are not.
_MAGIC = (
    (0, b"\x89PNG", "PNG"),
    (0, b"GIF8", "GIF"),
    (0, b"BM", "BMP"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"\xff\xd8\xff", "JPEG"),
    (8, b"WEBP", "WEBP"),
    (4, b"ftypavi", "AVIF"),
    (4, b"ftyphei", "HEIC"),
    (4, b"ftyphev", "HEIC"),
    (4, b"ftypmif1", "HEIF"),
    (4, b"ftypmsf1", "HEIF"),
)
_UNREAD = (
    (0, b"\xff\x0a", "JPEG XL"),
    (4, b"JXL \r\n", "JPEG XL"),
    (4, b"jP  \r\n", "JPEG 2000"),
    (0, b"8BPS", "PSD"),
    (0, b"%PDF", "PDF"),
    (0, b"\0\0\1\0", "ICO"),
)


def _silence_libtiff() -> None:
    """Turns off the messages about damaged files that Pillow's libtiff prints to stderr itself.

    The ledger counts these files. The handler belongs to the library, so it is set once, for all
    threads. Pillow turns off the warnings.
    """
    try:
        imaging = ctypes.CDLL(Image.core.__file__)  # type: ignore[attr-defined]
        handler = imaging.TIFFSetErrorHandler  # of what it links to
    except (OSError, AttributeError):
        return  # a Pillow without libtiff, or with it inside
    handler.argtypes, handler.restype = [ctypes.c_void_p], ctypes.c_void_p
    handler(None)


_silence_libtiff()
# Pillow warns about sizes that are rejected here, and about broken metadata, which is ignored here.
logging.getLogger("PIL").setLevel(logging.CRITICAL)
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", module=r"PIL\..*")
# Beam already uses every core; threads inside a decoder would only compete with it.
AvifImagePlugin.DEFAULT_MAX_THREADS = 1


def decode_with_pillow(data: bytes, options: DecodingOptions) -> DecodedImage:
    """Decodes an image.

    Raises:
        Rejection: It is damaged, declares too much, or is of a kind without a clear RGB.
    """
    repairs: set[str] = set()
    try:
        if data.startswith(_PNG):
            data, damaged = check_png(data, options.lenient)
            repairs |= {"damage"} if damaged else set()
        formats: tuple[str, ...] = PILLOW_FORMATS
        if heif.is_heif(data):
            heif.load_decoder()
            formats = (heif.FORMAT,)
        with Image.open(io.BytesIO(data), formats=formats) as image:
            size = image.size
            check_pixels(*size, options)
            _check_frames(image, options, repairs)
            _load(image, options, repairs)
            if heif.has_more_than_eight_bits(image):
                repairs.add("depth")
            pixels, convert = to_rgb(image, data, options.background, repairs)
            pixels = _upright(image, pixels, repairs)
            name = _NAMES.get(image.format or "", image.format or "unknown")
            return DecodedImage(pixels, name, *size, frozenset(repairs), convert)
    except Rejection:
        raise
    except Image.DecompressionBombError as error:
        raise Rejection("too-many-pixels", str(error)) from error
    except UnidentifiedImageError as error:
        raise Rejection(*_unidentified(data)) from error
    except MemoryError as error:
        raise Rejection("too-many-pixels", "decoding it takes more memory than there is") from error
    except Exception as error:  # Pillow's parsers may raise anything for a damaged file.
        raise Rejection(*_reason(error)) from error


def _check_frames(image: ImageFile.ImageFile, options: DecodingOptions, repairs: set[str]) -> None:
    """Rejects or notes several frames; Pillow has opened the first one and loads it."""
    try:
        animated = bool(getattr(image, "is_animated", False))
    except Exception:  # The second frame is damaged or a bomb, so there is one.
        animated = True
    if image.format in _JPEGS:
        repairs.add("coding")
        return  # the other images in a JPEG are previews and gain maps of the first
    if not animated:
        return
    if options.animated == "refuse":
        raise Rejection("animated", "it has several frames or pages, and --animated is refuse")
    repairs.add("frames")


def _load(image: ImageFile.ImageFile, options: DecodingOptions, repairs: set[str]) -> None:
    """Decodes all of it, or with --lenient the lines that decode.

    Pillow's own switch for that, LOAD_TRUNCATED_IMAGES, would apply to every thread. But when a
    decoder fails, the lines that it has finished are in the image already, above black ones.
    """
    orientation = _tiff_orientation(image)
    try:
        image.load()
        if orientation in TURNED and _tiff_orientation(image) != orientation:
            repairs.add("orientation")  # Pillow itself has turned it, which it does for TIFF only
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
    return getattr(image, "tag_v2", {}).get(ORIENTATION_TAG)


def _unidentified(data: bytes) -> tuple[str, str]:
    for start, magic, name in _MAGIC:
        if data.startswith(magic, start):
            return "corrupt", f"it begins like a {name}, but its header makes no sense"
    for start, magic, name in _UNREAD:
        if data.startswith(magic, start):
            return "unsupported-format", f"{name} is not read; convert it to PNG or JPEG"
    return "not-an-image", f"the content is none of {', '.join(PILLOW_FORMATS)}"


def _reason(error: Exception) -> tuple[str, str]:
    # Messages are stored in the set, so they must not contain addresses, which differ by run.
    message = re.sub(r"<[^>]* at 0x[0-9a-f]+>", "the data", str(error)) or type(error).__name__
    if "truncated" in message.lower():
        # Not reworded, see jpeg.py.
        return "truncated", f"the file ends before the picture does (Pillow: {message})"
    if "too large for" in message or "Too much memory" in message:
        return "decompression-bomb", f"metadata unpack to more than they may (Pillow: {message})"
    if message.startswith("Unsupported"):
        return "unsupported-format", f"Pillow: {message}"
    return "corrupt", f"the data cannot be decoded (Pillow: {message})"


def check_png(data: bytes, lenient: bool) -> tuple[bytes, bool]:
    """Checks the checksum of every chunk of a PNG; the data, and whether they are damaged.

    After an IDAT chunk with a wrong checksum Pillow returns pixels that may be wrong; libpng
    rejects such a file, and so does this function.

    Args:
        data: The whole file, which begins with a PNG signature.
        lenient: Remove broken chunks that the image does not need (Pillow would reject them).

    Raises:
        Rejection: Not lenient, and a chunk's checksum is wrong or the end is missing.
    """
    position, damaged, kept = _SIGNATURE_BYTES, False, [data[:_SIGNATURE_BYTES]]
    view = memoryview(data)
    while True:
        end = position + _CHUNK_FRAME_BYTES + int.from_bytes(view[position : position + 4], "big")
        kind = bytes(view[position + 4 : position + 8])
        if end > len(data) or len(kind) < 4:
            if not lenient:
                raise Rejection("truncated", "the file ends before the end chunk (IEND) of a PNG")
            kept.append(data[position:])
            return b"".join(kept) if damaged else data, True
        stored = int.from_bytes(view[end - 4 : end], "big")
        intact = zlib.crc32(view[position + 4 : end - 4]) == stored
        if not intact and not lenient:
            raise Rejection("corrupt", f"the checksum of chunk {kind!r} of a PNG is wrong")
        damaged |= not intact
        if intact or not kind[0] & _ANCILLARY:
            kept.append(view[position:end])  # type: ignore[arg-type]
        if kind == b"IEND":
            return b"".join(kept) if damaged else data, damaged
        position = end
