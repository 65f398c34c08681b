"""Valid files of every format, and ways to damage them."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageCms, features

_SIDE = 160  # pixels of the longer side: small enough for 10,000 files
_LONGEST = 64  # bytes that one mutation writes, by default


def good_files(photographs: Sequence[Path]) -> list[tuple[str, bytes]]:
    """(name ending in the extension, bytes) of every format for every image."""
    files = []
    for path in photographs:
        try:
            image = Image.open(path).convert("RGB")
        except OSError:
            continue  # the samples have broken files on purpose
        image.thumbnail((_SIDE, _SIDE))
        files += [(name, make(image)) for name, make in FORMATS.items()]
    return files


def _saved(kind: str, mode: str = "RGB", **options: Any) -> Callable[[Image.Image], bytes]:
    def save(image: Image.Image) -> bytes:
        file = io.BytesIO()
        image.convert(mode).save(file, kind, **options)
        return file.getvalue()

    return save


def _animated(kind: str, **options: Any) -> Callable[[Image.Image], bytes]:
    def save(image: Image.Image) -> bytes:
        others = [image.transpose(Image.Transpose.ROTATE_180), image.convert("L").convert("RGB")]
        return _saved(kind, save_all=True, append_images=others, **options)(image)

    return save


def _exif_and_profile(image: Image.Image) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return _saved("JPEG", exif=exif, icc_profile=profile)(image)


def _transparent(image: Image.Image) -> Image.Image:
    image = image.convert("RGBA")
    image.putalpha(image.convert("L"))
    return image


def _sixteen_bits(image: Image.Image) -> bytes:
    wide = np.asarray(image).astype(np.uint16) * 257
    return bytes(cv2.imencode(".png", wide)[1])


def _gray_sixteen_bits(image: Image.Image) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257).save(file, "PNG")
    return file.getvalue()


# The part before the last hyphen only distinguishes variants.
FORMATS: dict[str, Callable[[Image.Image], bytes]] = {
    "baseline-jpg": _saved("JPEG"),
    "progressive-jpg": _saved("JPEG", progressive=True),
    "gray-jpg": _saved("JPEG", "L"),
    "cmyk-jpg": _saved("JPEG", "CMYK"),
    "exif-icc-jpg": _exif_and_profile,
    "png": _saved("PNG"),
    "gray16-png": _gray_sixteen_bits,
    "rgb16-png": _sixteen_bits,
    "palette-png": _saved("PNG", "P"),
    "bilevel-png": _saved("PNG", "1"),
    "alpha-png": lambda image: _saved("PNG", "RGBA")(_transparent(image)),
    "animated-png": _animated("PNG"),
    "lossy-webp": _saved("WEBP"),
    "lossless-webp": _saved("WEBP", lossless=True),
    "alpha-webp": lambda image: _saved("WEBP", "RGBA")(_transparent(image)),
    "animated-webp": _animated("WEBP"),
    "gif": _saved("GIF"),
    "animated-gif": _animated("GIF"),
    "bmp": _saved("BMP"),
    "plain-tiff": _saved("TIFF"),
    "lzw-tiff": _saved("TIFF", compression="tiff_lzw"),
    "deflate-tiff": _saved("TIFF", compression="tiff_adobe_deflate"),
    "jpeg-tiff": _saved("TIFF", compression="jpeg"),
    "pages-tiff": _animated("TIFF"),
    "ppm": _saved("PPM"),
}
if features.check("avif"):
    FORMATS["avif"] = _saved("AVIF", speed=10)


def _truncate(draw: random.Random, data: bytes, _: bytes) -> bytes:
    return data[: draw.randrange(len(data))]


def _flip_bytes(draw: random.Random, data: bytes, _: bytes) -> bytes:
    damaged = bytearray(data)
    for _number in range(draw.choice((1, 1, 4, 50))):
        damaged[draw.randrange(len(damaged))] ^= draw.randrange(1, 256)
    return bytes(damaged)


def _splice(draw: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: draw.randrange(len(data))] + other[draw.randrange(len(other)) :]


def _zero_range(draw: random.Random, data: bytes, _: bytes) -> bytes:
    start = draw.randrange(len(data))
    end = min(len(data), start + draw.randrange(1, max(2, len(data) // 4)))
    return data[:start] + bytes(end - start) + data[end:]


def _keep(draw: random.Random, data: bytes, _: bytes) -> bytes:
    return data


def _swap_headers(draw: random.Random, data: bytes, other: bytes) -> bytes:
    length = draw.choice((4, 16, 64, 256))
    return other[:length] + data[length:]


def _insert_garbage(draw: random.Random, data: bytes, _: bytes) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + draw.randbytes(draw.randrange(1, _LONGEST)) + data[at:]


def _cut_out(draw: random.Random, data: bytes, _: bytes) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + data[at + draw.randrange(1, _LONGEST) :]


def _large_numbers(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """Sizes and counts are in the first bytes of most formats."""
    at = draw.randrange(min(len(data), 200))
    return data[:at] + draw.choice((b"\xff\xff", b"\x7f\xff\xff\xff")) + data[at + 4 :]


def _broken_exif(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """An Exif segment of noise in a JPEG; noise behind the first bytes of anything else."""
    noise = draw.randbytes(draw.randrange(1, _LONGEST))
    segment = b"Exif\0\0" + draw.choice((b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08", b"")) + noise
    if not data.startswith(b"\xff\xd8"):
        return data[:12] + segment + data[12 + len(segment) :]
    length = (len(segment) + 2).to_bytes(2, "big")
    return data[:2] + b"\xff\xe1" + length + segment + data[2:]


# (draw, data, another file) to damaged data, by the name that the corpus shows.
MUTATIONS: dict[str, Callable[[random.Random, bytes, bytes], bytes]] = {
    "truncate": _truncate,
    "flip_bytes": _flip_bytes,
    "splice": _splice,
    "zero_range": _zero_range,
    "wrong_extension": _keep,
    "swap_headers": _swap_headers,
    "insert_garbage": _insert_garbage,
    "cut_out": _cut_out,
    "large_numbers": _large_numbers,
    "broken_exif": _broken_exif,
}
