"""Filters that shrink an image, by the value of --resize-filter: the same pixels on every x86-64.

area       the mean of the source pixels that a pixel covers (OpenCV)
sharp      smoothed, interpolated, sharpened: near Lanczos, in less time than area (OpenCV)
bilinear   a triangle over the source pixels (Pillow)
bicubic    Keys's cubic, a = -1/2 (Pillow)
lanczos    a windowed sinc of three lobes (Pillow)

All but area compute in integers. Rates and distances: docs/decisions/0032-resize-filters.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]
# Of "sharp": fitted to Lanczos on photographs, shrunk 1.4 to 4 times. The variance of the Gaussian
# is a share of the square of the factor, less that of interpolation, in pixels of the source.
_SPREAD, _OWN_SPREAD, _LEAST = 0.225, 0.16, 0.04
_AROUND = 0.6  # standard deviation of what is sharpened against, in pixels of the result
# The factor from which sides are halved first. Above it, the Gaussian has more than 9 taps.
_HALVE_FROM = 5

# [height, width, 3], and the width and height to shrink it to -> [height, width, 3].
Filter = Callable[[Pixels, int, int], Pixels]

# Beam already uses every core; threads inside OpenCV would only compete with it.
cv2.setNumThreads(1)
# IPP chooses kernels by CPU model; without it the bytes depend on the wheel only.
if hasattr(cv2, "ipp"):
    cv2.ipp.setUseIPP(False)


def enlarge(image: Pixels, width: int, height: int) -> Pixels:
    """Interpolates linearly, in fixed point."""
    return _resize(image, width, height, cv2.INTER_LINEAR_EXACT)


def _area(image: Pixels, width: int, height: int) -> Pixels:
    return _resize(image, width, height, cv2.INTER_AREA)


def _pillow(kernel: Image.Resampling, image: Pixels, width: int, height: int) -> Pixels:
    return np.asarray(Image.fromarray(image).resize((width, height), kernel))


def _resize(image: Pixels, width: int, height: int, kernel: int) -> Pixels:
    return np.asarray(cv2.resize(image, (width, height), interpolation=kernel), np.uint8)


def _sharp(image: Pixels, width: int, height: int) -> Pixels:
    """Smooths by a Gaussian, interpolates between pixels, and sharpens: three cheap kernels.

    Together they are near a windowed sinc. Each rounds to 8 bits and computes in integers: OpenCV's
    Gaussian in fixed point (its kernel has 8 bits), and the last sum 2 a - b is exact in float32.
    """
    while image.shape[1] >= _HALVE_FROM * width and image.shape[0] >= _HALVE_FROM * height:
        # A kernel of its own in OpenCV, 8 times as fast as any other. An odd side loses a line.
        half = image.shape[1] // 2, image.shape[0] // 2
        image = _area(image[: 2 * half[1], : 2 * half[0]], *half)
    across, down = image.shape[1] / width, image.shape[0] / height
    sides = _taps(across), _taps(down)
    if sides != (1, 1):
        image = cv2.GaussianBlur(image, sides, _deviation(across), sigmaY=_deviation(down))
    image = _resize(image, width, height, cv2.INTER_LINEAR_EXACT)
    around = cv2.GaussianBlur(image, (3 if across > 1 else 1, 3 if down > 1 else 1), _AROUND)
    return np.asarray(cv2.addWeighted(image, 2, around, -1, 0), np.uint8)


def _deviation(factor: float) -> float:
    """Deviation, in pixels of the source, of the Gaussian before shrinking by a factor from 1."""
    return math.sqrt(max(_LEAST, _SPREAD * factor * factor - _OWN_SPREAD))


def _taps(factor: float) -> int:
    """The size of that Gaussian: 1 if it would change nothing, else odd."""
    deviation = _deviation(factor)
    return 1 + 2 * math.ceil(2 * deviation - 0.2) if deviation > math.sqrt(_LEAST) else 1


FILTERS: dict[str, Filter] = {
    "area": _area,
    "sharp": _sharp,
    "bilinear": functools.partial(_pillow, Image.Resampling.BILINEAR),
    "bicubic": functools.partial(_pillow, Image.Resampling.BICUBIC),
    "lanczos": functools.partial(_pillow, Image.Resampling.LANCZOS),
}
