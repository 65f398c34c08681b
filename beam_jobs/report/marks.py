"""Boxes and masks, drawn into the thumbnails of their images."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from beam_jobs.images.decode.base import Pixels
from shard_format.example import Values

_MOST_MASK_PIXELS = 1 << 28  # a mask is as large as its image; this bounds a damaged header
_MOST_BOXES = 100
_NO_CLASS = (0, 255)  # in masks: background, and what came from outside of the image
# Of classes, one after the other and then again: Okabe and Ito, "Color Universal Design" (2008).
_COLORS: npt.NDArray[np.uint8] = np.array(
    [
        (230, 159, 0),
        (86, 180, 233),
        (0, 158, 115),
        (240, 228, 66),
        (0, 114, 178),
        (213, 94, 0),
        (204, 121, 167),
    ],
    np.uint8,
)


def marked(pixels: Pixels, values: Mapping[str, Values]) -> Pixels:
    """A thumbnail with the boxes and the mask of its record, in the colors of their classes.

    Args:
        pixels: [height, width, 3] RGB.
        values: The record, which may lack any feature.

    Raises:
        Exception: The record was written by other software, and has something else there.
    """
    mask, boxes = values.get("segmentation_mask"), values.get("objects/bbox")
    if mask:
        pixels = _with_mask(pixels, bytes(mask[0]))  # type: ignore[arg-type]
    if boxes is not None and len(boxes):
        pixels = _with_boxes(pixels, boxes, values["objects/label"])
    return pixels


def _with_mask(pixels: Pixels, stored: bytes) -> Pixels:
    with Image.open(io.BytesIO(stored), formats=["PNG"]) as image:
        if image.width * image.height > _MOST_MASK_PIXELS:
            return pixels
        size = pixels.shape[1::-1]
        classes = np.asarray(image.convert("L").resize(size, Image.Resampling.NEAREST))
    colors = _COLORS[(classes.astype(np.int64) - 1) % len(_COLORS)]
    blended = (pixels.astype(np.uint16) + colors) // 2
    shown = ~np.isin(classes, _NO_CLASS)[..., None]
    return np.where(shown, blended.astype(np.uint8), pixels)


def _with_boxes(pixels: Pixels, boxes: Values, labels: Values) -> Pixels:
    image = Image.fromarray(pixels)
    draw, (height, width) = ImageDraw.Draw(image), pixels.shape[:2]
    places = np.clip(np.array(boxes, np.float64).reshape(-1, 4), 0, 1)[:_MOST_BOXES]
    places *= (height - 1, width - 1, height - 1, width - 1)
    for (top, left, bottom, right), label in zip(places.tolist(), labels, strict=False):
        color = tuple(_COLORS[int(label) % len(_COLORS)].tolist())  # type: ignore[call-overload]
        draw.rectangle((left, top, max(left, right), max(top, bottom)), outline=color, width=2)
    return np.asarray(image)
