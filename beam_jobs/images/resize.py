"""Resize modes: how large an image becomes, and which part of it is kept.

An image that is smaller than its mode asks for is scaled up only with --enlarge: interpolated
pixels cost bytes and tell a model nothing new, and the reader can still enlarge.

`resample` has the filters that shrink, by --resize-filter.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode.base import Pixels
from beam_jobs.images.resample import FILTERS, Filter, enlarge
from foundation.wording import did_you_mean
from shard_format import UsageError

MAX_SIDE = 65_500  # libjpeg's JPEG_MAX_DIMENSION

Convert = Callable[[Pixels], Pixels]  # of the colours, see DecodedImage.to_srgb
Scale = Callable[[Pixels, int, int], Pixels]  # image, width, height -> the image at that size


@dataclasses.dataclass(frozen=True)
class Resize:
    """A parsed --resize.

    Attributes:
        mode: A name in RESIZE_MODES.
        width: Of its box in pixels; for `shorter`, the side.
        height: Likewise.
        enlarge: Whether smaller images are scaled up.
        filter: A name in `resample.FILTERS`, by which larger ones are scaled down.
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
    scale = functools.partial(
        _scale, shrink=FILTERS[resize.filter], max_pixels=max_pixels, convert=convert
    )
    return RESIZE_MODES[resize.mode].apply(image, resize, scale)


def keeps_size(width: int, height: int, resize: Resize) -> bool:
    """Whether `resize_image` would return an image of this size unchanged."""
    if max(width, height) > MAX_SIDE:
        return False  # it would reject it
    return RESIZE_MODES[resize.mode].size(width, height, resize) == (width, height)


def stays_smaller(width: int, height: int, resize: Resize) -> bool:
    """Whether an image of this size is smaller than the mode asks for, and not scaled up."""
    numerator, denominator = RESIZE_MODES[resize.mode].scale(width, height, resize)
    return numerator > denominator and not resize.enlarge


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


def _scaled_size(width: int, height: int, resize: Resize) -> tuple[int, int]:
    """Of the complete image."""
    if stays_smaller(width, height, resize):
        return width, height
    scale = RESIZE_MODES[resize.mode].scale(width, height, resize)
    return _part(width, *scale), _part(height, *scale)


def _crop_size(width: int, height: int, resize: Resize) -> tuple[int, int]:
    if stays_smaller(width, height, resize):
        return _cut_size(width, height, resize)
    return resize.width, resize.height


def _cut_size(width: int, height: int, resize: Resize) -> tuple[int, int]:
    """The largest part of an image that has the aspect ratio of the box."""
    cut_width = _part(resize.width, height, resize.height)
    cut_height = _part(resize.height, width, resize.width)
    if stays_smaller(width, height, resize) and (cut_width == width or cut_height == height):
        return width, height  # within rounding, so that a second crop cuts nothing
    if _is_wider(width, height, resize):
        return min(width, cut_width), height
    return width, min(height, cut_height)


def _box_size(width: int, height: int, resize: Resize) -> tuple[int, int]:
    return resize.width, resize.height


def _scaled(image: Pixels, resize: Resize, scale: Scale) -> Pixels:
    """The complete image."""
    height, width = image.shape[:2]
    return scale(image, *_scaled_size(width, height, resize))


def _crop(image: Pixels, resize: Resize, scale: Scale) -> Pixels:
    """Cuts out the centre in the aspect ratio of the box first: no intermediate image is large."""
    height, width = image.shape[:2]
    cut_width, cut_height = _cut_size(width, height, resize)
    top, left = (height - cut_height) // 2, (width - cut_width) // 2
    centre = np.ascontiguousarray(image[top : top + cut_height, left : left + cut_width])
    return scale(centre, *_crop_size(width, height, resize))


def _pad(image: Pixels, resize: Resize, scale: Scale) -> Pixels:
    fitted = _scaled(image, resize, scale)
    height, width = fitted.shape[:2]
    padded = np.zeros((resize.height, resize.width, 3), np.uint8)
    top, left = (resize.height - height) // 2, (resize.width - width) // 2
    padded[top : top + height, left : left + width] = fitted
    return padded


class Mode(NamedTuple):
    """A resize mode.

    Attributes:
        pattern: What follows its name in --resize, with a group for each side in pixels.
        scale: (width, height, what to do) of an image -> (numerator, denominator) of the factor
            that makes it as large as the mode asks for.
        size: (width, height, what to do) of an image -> (width, height) of the result.
        apply: (image, what to do, how to scale) -> the result.
    """

    pattern: str
    scale: Callable[[int, int, Resize], tuple[int, int]]
    size: Callable[[int, int, Resize], tuple[int, int]] = _scaled_size
    apply: Callable[[Pixels, Resize, Scale], Pixels] = _scaled


_SIDE = r"(\d{1,9})"
RESIZE_MODES: dict[str, Mode] = {
    "shorter": Mode(_SIDE, _shorter_scale),
    "fit": Mode(f"{_SIDE}x{_SIDE}", _fit_scale),
    "crop": Mode(f"{_SIDE}x{_SIDE}", _cover_scale, _crop_size, _crop),
    "pad": Mode(f"{_SIDE}x{_SIDE}", _fit_scale, _box_size, _pad),
    "none": Mode("", _own_scale),
}


def _part(side: int, numerator: int, denominator: int) -> int:
    """The side times numerator / denominator, rounded half up in integers, at least 1."""
    return max(1, (2 * side * numerator + denominator) // (2 * denominator))


def _scale(
    image: Pixels,
    width: int,
    height: int,
    shrink: Filter,
    max_pixels: int,
    convert: Convert | None,
) -> Pixels:
    if max(width, height) > MAX_SIDE or width * height > max_pixels:
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
