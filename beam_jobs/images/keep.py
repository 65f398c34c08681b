"""JPEG files whose bytes can be stored as they are: `--quality keep`.

Its header says whether a file needs a change. What is kept is decoded all the same, at an eighth of
its size: libjpeg-turbo then reads every coded bit, and so finds what a full decode finds, but
computes a 64th of the pixels.
"""

from __future__ import annotations

import functools
import hashlib
import io
import struct
from typing import NamedTuple

import numpy as np
import simplejpeg
from PIL import Image, ImageCms

from beam_jobs.images.decode import Pixels

# Start of frame: baseline, extended and progressive, all with Huffman codes. What else there is
# (lossless, arithmetic coding), TensorFlow does not decode.
_SEQUENTIAL = (0xC0, 0xC1)
_CODINGS = (*_SEQUENTIAL, 0xC2)
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset([0x01, *range(0xD0, 0xD8)])  # markers without a segment
_SCAN, _APP1, _APP2 = 0xDA, 0xE1, 0xE2
_EXIF, _ICC = b"Exif\0\0", b"ICC_PROFILE\0"
_ORIENTATION_TAG, _SHORT = 0x0112, 3
# Real files have about 10. A scan of 100 bytes may cover every block of a picture, and a file with
# thousands would take the reader minutes in every epoch.
_MAX_SCANS = 100
# Published variants of sRGB differ by 1 grey level of 255 in a channel, Adobe RGB by over 100.
_SRGB_TOLERANCE = 2


class _Header(NamedTuple):
    """What precedes the first scan of a JPEG.

    Attributes:
        coding: Second byte of its start of frame marker, 0 if there is none.
        precision: Bits a sample.
        interleaved: The first scan has all components.
        exif: Exif segments, from the byte order on.
        profile: Segments of an ICC profile.
    """

    coding: int
    precision: int
    interleaved: bool
    exif: list[bytes]
    profile: list[bytes]


def needs_no_change(data: bytes) -> tuple[int, int] | None:
    """(width, height) of a JPEG that is upright 8-bit YCbCr or gray in sRGB already, else None.

    It reads the header alone; see `shrunk` for the pixels.
    """
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    header = _read_header(data)
    if header is None or header.coding not in _CODINGS or header.precision != 8:
        return None
    # In coded bits 0xFF is never followed by the code of a scan. Counting takes as long as all else
    # here, and a baseline JPEG has no further scan if the first one has all components.
    if not (header.interleaved and header.coding in _SEQUENTIAL):
        if data.count(b"\xff\xda") > _MAX_SCANS:
            return None
    if len(header.exif) > 1 or any(_orientation(exif) != 1 for exif in header.exif):
        return None
    try:
        # libjpeg-turbo's own rules say which colours three components are.
        height, width, colour, _ = simplejpeg.decode_jpeg_header(data)
    except (ValueError, KeyError):  # KeyError: a subsampling that simplejpeg has no name for
        return None
    mode = {"YCbCr": "RGB", "Gray": "L", "GRAY": "L"}.get(colour)
    if mode is None or not _is_srgb(tuple(header.profile), mode):
        return None
    return width, height


def shrunk(data: bytes) -> Pixels:
    """A JPEG at an eighth of its size: [ceil(height / 8), ceil(width / 8), 3] uint8, RGB.

    Raises:
        ValueError: libjpeg-turbo has an error or a warning, the very ones of a full strict decode.
    """
    # Without bounds from below, simplejpeg takes the least scale that there is.
    pixels: Pixels = simplejpeg.decode_jpeg(
        data,
        "RGB",
        fastdct=False,
        fastupsample=False,
        min_height=1,
        min_width=1,
        min_factor=1,
        strict=True,
    )
    return pixels


def pixels_hash(width: int, height: int, pixels: Pixels) -> bytes:
    """16 bytes: half of the SHA-256 over width and height (int64, little-endian) and pixels.

    Args:
        width: Of the stored picture.
        height: Likewise.
        pixels: Of any shape: all of them, or those of `shrunk`.
    """
    digest = hashlib.sha256(struct.pack("<2q", width, height))
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.digest()[:16]


def _read_header(data: bytes) -> _Header | None:
    """None where the segments make no sense."""
    coding = precision = components = 0
    exif: list[bytes] = []
    profile: list[bytes] = []
    position, last = 2, len(data) - 10  # the segments that count are longer
    while position <= last and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == _SCAN:
            return _Header(coding, precision, data[position + 4] == components, exif, profile)
        if marker == 0xFF:  # padding
            position += 1
            continue
        if marker in _BARE:
            position += 2
            continue
        end = position + 2 + (data[position + 2] << 8 | data[position + 3])
        if marker in _FRAMES:
            coding, precision, components = marker, data[position + 4], data[position + 9]
        elif marker == _APP1 and data.startswith(_EXIF, position + 4):
            exif.append(data[position + 10 : end])
        elif marker == _APP2 and data.startswith(_ICC, position + 4):
            profile.append(data[position + 16 : end])
        position = end
    return None


def _orientation(exif: bytes) -> int | None:
    """Exif orientation of the first directory, 1 without one; None where Exif makes no sense."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return None
    try:
        (start,) = struct.unpack_from(order + "I", exif, 4)
        (count,) = struct.unpack_from(order + "H", exif, start)
        for entry in range(count):
            tag, kind, length, value = struct.unpack_from(
                order + "HHIH", exif, start + 2 + 12 * entry
            )
            if tag == _ORIENTATION_TAG:
                return int(value) if (kind, length) == (_SHORT, 1) else None
    except struct.error:
        return None
    return 1


@functools.lru_cache(maxsize=32)  # a corpus has a handful of profiles
def _is_srgb(segments: tuple[bytes, ...], mode: str) -> bool:
    """Whether a profile does nothing to colours; no profile means sRGB, a broken one does not.

    Args:
        segments: Each begins with its number from 1 and the count (ICC.1:2022, annex B.4).
        mode: Pillow's name for the pixels, "RGB" or "L".
    """
    if not segments:
        return True
    numbered = sorted(segments, key=lambda segment: segment[:1])
    if [part[:2] for part in numbered] != [
        bytes([number + 1, len(segments)]) for number in range(min(len(segments), 255))
    ]:
        return False
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(b"".join(part[2:] for part in numbered)))
        target = ImageCms.createProfile("sRGB")
        transform = ImageCms.buildTransform(profile, target, mode, "RGB")
        levels = np.arange(0, 256, 1 if mode == "L" else 15, dtype=np.uint8)  # 15 * 17 is 255
        probe = levels if mode == "L" else np.stack(np.meshgrid(*[levels] * 3), axis=-1)
        probe = probe.reshape(1, -1) if mode == "L" else probe.reshape(1, -1, 3)
        image = Image.fromarray(probe)
        moved = np.asarray(ImageCms.applyTransform(image, transform), np.int16)
    except Exception:  # ImageCms raises OSError, its own PyCMSError, and whatever parsing raises.
        return False
    return bool(np.abs(moved - np.asarray(image.convert("RGB"), np.int16)).max() <= _SRGB_TOLERANCE)
