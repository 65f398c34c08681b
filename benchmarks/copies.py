"""Altered copies of images as they occur on the web, from a seed."""

from __future__ import annotations

import io
from collections.abc import Callable

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from beam_jobs.images.decode import DecodingOptions, Pixels, decode_image

MAX_PIXELS = 10**8
_QUALITY = 90  # of a copy whose kind is not about quality
_TRANSPOSED = {  # what undoes an EXIF orientation, inverted
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}

Copy = Callable[[Pixels, np.random.Generator], bytes]


def _jpeg(pixels: Pixels, quality: int = _QUALITY) -> bytes:
    return simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality)


def _resized(pixels: Pixels, factor: float) -> Pixels:
    height, width = pixels.shape[:2]
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    kernel = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, size, interpolation=kernel), np.uint8)


def _cropped(pixels: Pixels, part: float, generator: np.random.Generator) -> Pixels:
    """Without this part of width and height, removed from the sides at random."""
    height, width = pixels.shape[:2]
    rows, columns = round(height * part), round(width * part)
    top, left = generator.integers(rows + 1), generator.integers(columns + 1)
    return pixels[top : height - rows + top, left : width - columns + left]


def _toned(pixels: Pixels, generator: np.random.Generator) -> Pixels:
    """Brightness by up to 8 %, contrast by up to 15 %, gamma from 0.85 to 1.18."""
    levels = np.arange(256) / 255
    levels = (levels - 0.5) * generator.uniform(0.85, 1.15) + 0.5 + generator.uniform(-0.08, 0.08)
    curve = np.rint(255 * levels.clip(0, 1) ** generator.uniform(0.85, 1.18)).astype(np.uint8)
    return curve[pixels]


def _rotated(pixels: Pixels, generator: np.random.Generator) -> bytes:
    """The pixels are rotated, with an EXIF orientation that says so."""
    orientation = int(generator.choice(list(_TRANSPOSED)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    turned = Image.fromarray(pixels).transpose(_TRANSPOSED[orientation])
    turned.save(file, "JPEG", quality=_QUALITY, exif=exif)
    return file.getvalue()


COPIES: dict[str, Copy] = {
    "resize 0.25 to 2": lambda p, g: _jpeg(_resized(p, 2 ** g.uniform(-2, 1))),
    "resize 0.25": lambda p, g: _jpeg(_resized(p, 0.25)),
    "resize 2": lambda p, g: _jpeg(_resized(p, 2)),
    "JPEG quality 50": lambda p, g: _jpeg(p, 50),
    "EXIF rotation": _rotated,
    "crop 3 %": lambda p, g: _jpeg(_cropped(p, 0.03, g)),
    "crop 5 %": lambda p, g: _jpeg(_cropped(p, 0.05, g)),
    "crop 10 %": lambda p, g: _jpeg(_cropped(p, 0.10, g)),
    "tone": lambda p, g: _jpeg(_toned(p, g)),
    "resize and quality 50": lambda p, g: _jpeg(_resized(p, 2 ** g.uniform(-2, 1)), 50),
    "crop 5 %, resize, quality 50": lambda p, g: _jpeg(
        _resized(_cropped(p, 0.05, g), 2 ** g.uniform(-2, 1)), 50
    ),
}


def altered(pixels: Pixels, kind: str, generator: np.random.Generator) -> Pixels:
    """The upright pixels of a copy that was altered, stored and decoded."""
    return decode_image(COPIES[kind](pixels, generator), DecodingOptions(MAX_PIXELS)).pixels
