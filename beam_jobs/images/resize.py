"""Resize modes: how large an image becomes, and which part of it is kept.

An image that is smaller than its mode asks for is scaled up only with --enlarge: interpolated
pixels cost bytes and tell a model nothing new, and the reader can still enlarge.

FILTERS has those that shrink, by the value of --resize-filter: the same pixels on every x86-64.

area       the mean of the source pixels that a pixel covers (OpenCV)
sharp      smoothed, interpolated, sharpened: near Lanczos, in less time than area (OpenCV)
bilinear   a triangle over the source pixels (Pillow)
bicubic    Keys's cubic, a = -1/2 (Pillow)
lanczos    a windowed sinc of three lobes (Pillow)

All but area compute in integers. Rates and distances: docs/decisions/0032-resize-filters.md.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode.base import Pixels
from foundation.wording import did_you_mean
from shard_format import UsageError

MAX_SIDE = 65_500  # libjpeg's JPEG_MAX_DIMENSION

Convert = Callable[[Pixels], Pixels]  # of the colours, see DecodedImage.to_srgb
Size = tuple[int, int]  # width and height in pixels


@dataclasses.dataclass(frozen=True)
class Resize:
    """A parsed --resize.

    Attributes:
        mode: A name in RESIZE_MODES.
        width: Width of its box in pixels; for `shorter`, the side.
        height: Height of its box in pixels.
        enlarge: Whether smaller images are scaled up.
        filter: A name in FILTERS, by which larger ones are scaled down.
    """

    mode: str
    width: int = 0
    height: int = 0
    enlarge: bool = False
    filter: str = "area"


def parse_resize(text: str, enlarge: bool = False, resize_filter: str = "area") -> Resize:
    """Parses "shorter:256", "fit:640x480", "crop:224x224", "pad:224x224" or "none".

    Args:
        text: The value of --resize.
        enlarge: The value of --enlarge.
        resize_filter: The value of --resize-filter.

    Raises:
        UsageError: The mode is unknown, or its size is missing, malformed or too large.
    """
    mode, _, size = text.partition(":")
    match = re.fullmatch(RESIZE_MODES[mode].pattern, size) if mode in RESIZE_MODES else None
    sides = [int(side) for side in match.groups()] if match else []
    if match is None or any(not 1 <= side <= MAX_SIDE for side in sides):
        near = "" if mode in RESIZE_MODES else did_you_mean(mode, RESIZE_MODES)
        raise UsageError(
            f"--resize is {text!r}, not shorter:N, fit:WxH, crop:WxH, pad:WxH or none with sides "
            f"from 1 to {MAX_SIDE}. {near}Write for instance shorter:256."
        )
    width, height = (sides * 2)[:2] or (0, 0)
    return Resize(mode, width, height, enlarge, resize_filter)


def resize_image(
    image: Pixels, resize: Resize, max_pixels: int, convert: Convert | None = None
) -> Pixels:
    """The resized image.

    Args:
        image: [height, width, 3] uint8.
        resize: What to do.
        max_pixels: A bound on any intermediate image, since a thin strip may become huge.
        convert: Changes colours, and is applied where the image is smallest.

    Raises:
        Rejection: The image would be larger than `max_pixels` or than can be stored.
    """
    height, width = image.shape[:2]
    geometry = geometry_of(width, height, resize)
    if geometry.cut != (width, height):
        left, top = margins((width, height), geometry.cut)
        right, bottom = left + geometry.cut[0], top + geometry.cut[1]
        image = np.ascontiguousarray(image[top:bottom, left:right])
    image = _scaled(image, geometry.size, FILTERS[resize.filter], max_pixels, convert)
    if geometry.canvas == geometry.size:
        return image
    left, top = margins(geometry.canvas, geometry.size)
    canvas = np.zeros((*reversed(geometry.canvas), 3), np.uint8)
    canvas[top : top + len(image), left : left + image.shape[1]] = image
    return canvas


def keeps_size(width: int, height: int, resize: Resize) -> bool:
    """Whether `resize_image` would return an image of this size unchanged."""
    if max(width, height) > MAX_SIDE:
        return False  # it would reject it
    return geometry_of(width, height, resize).canvas == (width, height)


def stays_smaller(width: int, height: int, resize: Resize) -> bool:
    """Whether an image of this size is smaller than the mode asks for, and not scaled up."""
    numerator, denominator = RESIZE_MODES[resize.mode].scale(width, height, resize)
    return numerator > denominator and not resize.enlarge


class ResizeGeometry(NamedTuple):
    """The steps from an image of one size to its result.

    Attributes:
        cut: The part in the centre that is kept. It is cut first: no intermediate image is large.
        size: The size to which it is scaled.
        canvas: The size of the result, which is black around the scaled image.
    """

    cut: Size
    size: Size
    canvas: Size


def geometry_of(width: int, height: int, resize: Resize) -> ResizeGeometry:
    """Computes what `resize_image` does with an image of this size."""
    mode, box = RESIZE_MODES[resize.mode], (resize.width, resize.height)
    cut = _cut(width, height, resize) if mode.crops else (width, height)
    if stays_smaller(width, height, resize):
        size = cut
    elif mode.crops:
        size = box
    else:
        scale = mode.scale(width, height, resize)
        size = _part(width, *scale), _part(height, *scale)
    return ResizeGeometry(cut, size, box if mode.pads else size)


def _cut(width: int, height: int, resize: Resize) -> Size:
    """The largest part of an image that has the aspect ratio of the box."""
    cut_width = _part(resize.width, height, resize.height)
    cut_height = _part(resize.height, width, resize.width)
    if stays_smaller(width, height, resize) and (cut_width == width or cut_height == height):
        return width, height  # within rounding, so that a second crop cuts nothing
    if _is_wider(width, height, resize):
        return min(width, cut_width), height
    return width, min(height, cut_height)


def _shorter_scale(width: int, height: int, resize: Resize) -> tuple[int, int]:
    return resize.width, min(width, height)


def _fit_scale(width: int, height: int, resize: Resize) -> tuple[int, int]:
    return (resize.width, width) if _is_wider(width, height, resize) else (resize.height, height)


def _cover_scale(width: int, height: int, resize: Resize) -> tuple[int, int]:
    return (resize.height, height) if _is_wider(width, height, resize) else (resize.width, width)


def _own_scale(width: int, height: int, resize: Resize) -> tuple[int, int]:
    return 1, 1


def _is_wider(width: int, height: int, resize: Resize) -> bool:
    """Whether an image is relatively wider than the box."""
    return width * resize.height >= height * resize.width


class Mode(NamedTuple):
    """A resize mode.

    Attributes:
        pattern: What follows its name in --resize, with a group for each side in pixels.
        scale: (width, height, what to do) of an image -> (numerator, denominator) of the factor
            that makes it as large as the mode asks for.
        crops: Whether the image is cut to the aspect ratio of the box.
        pads: Whether the result is as large as the box.
    """

    pattern: str
    scale: Callable[[int, int, Resize], tuple[int, int]]
    crops: bool = False
    pads: bool = False


_SIDE = r"(\d{1,9})"
_BOX = f"{_SIDE}x{_SIDE}"
RESIZE_MODES: dict[str, Mode] = {
    "shorter": Mode(_SIDE, _shorter_scale),
    "fit": Mode(_BOX, _fit_scale),
    "crop": Mode(_BOX, _cover_scale, crops=True),
    "pad": Mode(_BOX, _fit_scale, pads=True),
    "none": Mode("", _own_scale),
}


def _part(side: int, numerator: int, denominator: int) -> int:
    """The side times numerator / denominator, rounded half up in integers, at least 1."""
    return max(1, (2 * side * numerator + denominator) // (2 * denominator))


def margins(outer: Size, inner: Size) -> Size:
    """The left and upper margin around something in the centre."""
    return (outer[0] - inner[0]) // 2, (outer[1] - inner[1]) // 2


def _scaled(
    image: Pixels, size: Size, shrink: Filter, max_pixels: int, convert: Convert | None
) -> Pixels:
    width, height = size
    if max(size) > MAX_SIDE or width * height > max_pixels:
        raise Rejection(
            "too-large-resized",
            f"it would be {width} x {height} pixels after --resize; a JPEG holds {MAX_SIDE} a side "
            f"and --max-pixels is {max_pixels}",
        )
    convert = convert or (lambda pixels: pixels)
    if image.shape[:2] == (height, width):
        return convert(image)
    if width <= image.shape[1] and height <= image.shape[0]:
        return convert(shrink(image, width, height))
    return enlarge(convert(image), width, height)


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
