"""The segments of a JPEG before its first scan (ITU-T T.81, annex B)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

BASELINE, EXTENDED, PROGRESSIVE = 0xC0, 0xC1, 0xC2  # start of frame, Huffman coded
PROGRESSIVE_ARITHMETIC = 0xCA
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # start of frame, of any coding
_BARE = frozenset([0x01, *range(0xD0, 0xD8)])  # markers without a segment
_SCAN, _APP1, _APP2 = 0xDA, 0xE1, 0xE2
_EXIF, _ICC = b"Exif\0\0", b"ICC_PROFILE\0"


class JpegHeader(NamedTuple):
    """What precedes the pixels.

    Attributes:
        coding: Second byte of the start of frame marker: BASELINE, PROGRESSIVE, ...
        precision: Bits a sample.
        interleaved: The first scan has all components, so a baseline JPEG has no other scan.
        scan: Where the marker of the first scan lies, in bytes.
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
    """None where the segments make no sense; libjpeg-turbo has a word for why."""
    coding = precision = components = 0
    exif: bytes | None = None
    profile: list[bytes] = []
    for marker, start, end in _segments(data):
        if marker == _SCAN:
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
    """(marker, start, end) of every segment up to the first scan, which is the last one."""
    position = 2  # behind the start of image
    last = len(data) - 10  # the segments that count are longer
    while position <= last and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # padding
            position += 1
        elif marker in _BARE:
            position += 2
        else:
            end = position + 2 + (data[position + 2] << 8 | data[position + 3])
            yield marker, position, end
            if marker == _SCAN:
                return
            position = end


def _joined(segments: list[bytes]) -> bytes | None:
    """A profile of its segments: number, count, bytes (ICC.1:2022, annex B.4)."""
    if not segments:
        return None
    segments.sort(key=lambda segment: segment[:1])
    expected = [bytes([number + 1, len(segments)]) for number in range(min(len(segments), 255))]
    if [segment[:2] for segment in segments] != expected:
        return b""
    return b"".join(segment[2:] for segment in segments)
