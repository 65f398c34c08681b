"""`pillow` in NumPy and OpenCV: the same operations by the same names, on arrays.

Every function maps [height, width, 3] uint8 to the same, and gives what its namesake gives.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from reader.transforms.colors import WEIGHTS

Pixels = npt.NDArray[np.uint8]
_LEVELS = 256
_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13


def autocontrast(image: Pixels) -> Pixels:
    """`PIL.ImageOps.autocontrast`: of each channel, the least value becomes 0, the greatest 255."""
    levels = np.arange(_LEVELS)[:, None]
    present = _counts(image) > 0
    low = np.argmax(present, axis=0).astype(np.float64)
    high = _LEVELS - 1.0 - np.argmax(present[::-1], axis=0)
    scale = 255.0 / np.maximum(high - low, 1.0)
    stretched = np.clip(levels * scale - low * scale, 0.0, 255.0)
    return _looked_up(image, np.where(high > low, stretched, levels))


def equalize(image: Pixels) -> Pixels:
    """`PIL.ImageOps.equalize`: of each channel, all values become about equally frequent."""
    counts, levels = _counts(image), np.arange(_LEVELS)[:, None]
    greatest = _LEVELS - 1 - np.argmax(counts[::-1] > 0, axis=0)
    step = (counts.sum(axis=0) - counts[greatest, np.arange(3)]) // 255
    before = np.cumsum(counts, axis=0) - counts + step // 2
    spread = np.minimum(before // np.maximum(step, 1), 255)
    return _looked_up(image, np.where(step > 0, spread, levels))


def posterize(image: Pixels, bits: int) -> Pixels:
    """`PIL.ImageOps.posterize`: only the first bits of every value, from 1 to 8 of them."""
    return image & np.uint8((0xFF << (8 - bits)) & 0xFF)


def solarize(image: Pixels, threshold: int) -> Pixels:
    """`PIL.ImageOps.solarize`: values from the threshold on are inverted; 256 inverts none."""
    levels = np.arange(_LEVELS)
    return _looked_up(image, np.where(levels >= threshold, 255 - levels, levels))


def color(image: Pixels, factor: Any) -> Pixels:
    """`PIL.ImageEnhance.Color`: 0 is grey, 1 the image, more is more colourful."""
    planes = _planes(image)
    grey = _grey(planes)
    return cv2.merge([_blended(grey, plane, factor) for plane in planes])


def contrast(image: Pixels, factor: Any) -> Pixels:
    """`PIL.ImageEnhance.Contrast`: 0 is evenly grey, 1 the image."""
    mean = _grey(_planes(image)).mean(dtype=np.float64)
    return _looked_up(image, _blended(np.floor(np.float32(mean) + 0.5), _levels(), factor))


def brightness(image: Pixels, factor: Any) -> Pixels:
    """`PIL.ImageEnhance.Brightness`: 0 is black, 1 the image."""
    return _looked_up(image, _blended(np.float32(0), _levels(), factor))


def sharpness(image: Pixels, factor: Any) -> Pixels:
    """`PIL.ImageEnhance.Sharpness`: 0 is smoothed, 1 the image, more is sharper."""
    if min(image.shape[:2]) < 3:
        return image
    # A sum of whole numbers by 13 is never halfway between two of them: any rounding is the same.
    smooth = cv2.filter2D(image, -1, _SMOOTH).astype(np.float32)
    result = image.copy()  # a border of one pixel is not smoothed
    inner = (slice(1, -1), slice(1, -1))
    result[inner] = _blended(smooth[inner], image[inner].astype(np.float32), factor)
    return result


def _blended(degenerate: Any, values: npt.NDArray[np.float32], factor: Any) -> Pixels:
    """`PIL.Image.blend`: towards the second by a factor, also beyond it; cut, not rounded."""
    blended = values - degenerate
    blended *= factor
    blended += degenerate
    return np.clip(blended, 0, 255, out=blended).astype(np.uint8)


def _planes(image: Pixels) -> list[npt.NDArray[np.float32]]:
    """Red, green and blue, [height, width] each."""
    return [plane.astype(np.float32) for plane in cv2.split(image)]


def _grey(planes: list[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    """[height, width] whole numbers: Pillow's mode "L"."""
    red, green, blue = (plane * weight for plane, weight in zip(planes, WEIGHTS, strict=True))
    return np.floor(red + green + blue + 0.5)


def _levels() -> npt.NDArray[np.float32]:
    return np.arange(_LEVELS, dtype=np.float32)


def _counts(image: Pixels) -> npt.NDArray[np.int64]:
    """[256, 3]: how often each channel has each value."""
    histograms = [cv2.calcHist([image], [c], None, [_LEVELS], [0, _LEVELS]) for c in range(3)]
    return np.stack([one.ravel() for one in histograms], axis=1).astype(np.int64)


def _looked_up(image: Pixels, table: npt.NDArray[Any]) -> Pixels:
    """The image with every value replaced by that of a table [256] or [256, 3], cut to integers."""
    if table.ndim == 2:
        table = table[None]
    return cv2.LUT(image, table.astype(np.uint8))
