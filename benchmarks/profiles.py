"""Colour profiles for a share of the photographs of a corpus, as cameras and phones embed them."""

from __future__ import annotations

import struct

import numpy as np
from PIL import ImageCms

_MARKER, _NAME = b"\xff\xe2", b"ICC_PROFILE\0\1\1"
_WHITE = (0.96420, 1.0, 0.82491)  # D50
# Colorants under D50: columns of the matrices that the specifications give.
_ADOBE_RGB = (
    (0.60974, 0.31111, 0.01947),
    (0.20528, 0.62567, 0.06087),
    (0.14919, 0.06322, 0.74457),
)
_DISPLAY_P3 = (
    (0.51512, 0.24120, -0.00105),
    (0.29198, 0.69225, 0.04189),
    (0.15710, 0.06657, 0.78407),
)
_EVERY = 25  # of so many files three have a profile: 12 %


def with_profile(data: bytes, number: int) -> bytes:
    """A JPEG, with a profile if its number in the corpus says so.

    Of every 25 files one has a profile of sRGB, and one of sRGB, Adobe RGB, or Display P3 each in
    turn in two more places: of all profiles 5 of 9 are sRGB.
    """
    place, turn = number % _EVERY, number // _EVERY
    if place not in (3, 11, 19):
        return data
    profile = _PROFILES[0 if place == 3 else turn % len(_PROFILES)]
    segment = _NAME + profile
    return data[:2] + _MARKER + struct.pack(">H", len(segment) + 2) + segment + data[2:]


def _matrix_profile(colorants: tuple[tuple[float, ...], ...], curve: bytes) -> bytes:
    """An ICC profile of version 2 with a matrix and a curve."""
    names = (b"rXYZ", b"gXYZ", b"bXYZ")
    tags = [(b"wtpt", _xyz(_WHITE)), *zip(names, map(_xyz, colorants), strict=True)]
    tags += [(name, curve) for name in (b"rTRC", b"gTRC", b"bTRC")]
    start, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for signature, value in tags:
        table += signature + struct.pack(">II", start + len(body), len(value))
        body += value + bytes(-len(value) % 4)
    head = struct.pack(">I4sI4s4s4s", start + len(body), b"none", 0x02100000, *_KINDS)
    head += bytes(12) + b"acsp" + bytes(28) + struct.pack(">iii", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


_KINDS = (b"mntr", b"RGB ", b"XYZ ")


def _xyz(values: tuple[float, ...]) -> bytes:
    return b"XYZ \0\0\0\0" + struct.pack(">iii", *(round(value * 65536) for value in values))


def _srgb_curve() -> bytes:
    steps = np.linspace(0, 1, 1024)
    linear = np.where(steps <= 0.04045, steps / 12.92, ((steps + 0.055) / 1.055) ** 2.4)
    values: bytes = (linear * 65535).round().astype(">u2").tobytes()
    return b"curv\0\0\0\0" + struct.pack(">I", 1024) + values


_GAMMA = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(2.19921875 * 256))
_PROFILES = (
    ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(),
    _matrix_profile(_ADOBE_RGB, _GAMMA),
    _matrix_profile(_DISPLAY_P3, _srgb_curve()),
)
