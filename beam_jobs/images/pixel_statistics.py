"""Sums over the channels of a picture, as exact integers that can be added up in any order."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pyarrow as pa

from beam_jobs.images.decode import Pixels

STEP = 4  # every 4th row and column: a 16th of the pixels tells mean and deviation as well
MIN_SIDE = 32  # a picture with a side below it counts in full

PIXEL_FIELDS = (
    pa.field("pixel_count", pa.int64()),  # pixels that were counted; 0 where none were
    pa.field("pixel_sum", pa.list_(pa.int64(), 3)),  # red, green, blue; null where none were
    pa.field("pixel_sum_squares", pa.list_(pa.int64(), 3)),
    pa.field("pixel_min", pa.list_(pa.uint8(), 3)),
    pa.field("pixel_max", pa.list_(pa.uint8(), 3)),
)
NOT_COUNTED: dict[str, Any] = {field.name: None for field in PIXEL_FIELDS} | {"pixel_count": 0}


def count_pixels(image: Pixels) -> dict[str, Any]:
    """A value for each of `PIXEL_FIELDS`.

    Rows 0, 4, 8, ... count, and of columns 0, 4, 8, ... those that lie in a whole group of four.

    Args:
        image: [height, width, 3] uint8, RGB.
    """
    counted = _every_fourth(image) if min(image.shape[:2]) >= MIN_SIDE else _with_fourth(image)
    rows = counted.reshape(counted.shape[0], -1)
    count = counted.shape[0] * counted.shape[1]
    means, deviations = (values.ravel().tolist()[:3] for values in cv2.meanStdDev(counted))
    return {
        "pixel_count": count,
        # OpenCV adds integers and divides in float64 at the end. So these products are wrong by
        # less than 0.01 even at 178 million pixels, and rounding gives the integers back.
        "pixel_sum": [round(mean * count) for mean in means],
        "pixel_sum_squares": [
            round((deviation * deviation + mean * mean) * count)
            for mean, deviation in zip(means, deviations, strict=True)
        ],
        # By column first: numpy is fast along rows, and slow over triples.
        "pixel_min": np.minimum.reduce(np.minimum.reduce(rows).reshape(-1, 4)).tolist()[:3],
        "pixel_max": np.maximum.reduce(np.maximum.reduce(rows).reshape(-1, 4)).tolist()[:3],
    }


def _every_fourth(image: Pixels) -> Pixels:
    """[ceil(height / 4), floor(width / 4), 4] uint8: RGB, and a byte of no meaning.

    Picking pixels of three bytes takes numpy four times as long as picking words of four. Twelve
    bytes are four pixels and three words, so every third word begins with the pixel wanted.
    """
    width = image.shape[1] // STEP
    rows = np.ascontiguousarray(image[::STEP, : STEP * width]).reshape(-1, STEP * width * 3)
    words = np.ascontiguousarray(rows.view(np.uint32)[:, ::3])
    return words.view(np.uint8).reshape(len(rows), width, 4)


def _with_fourth(image: Pixels) -> Pixels:
    """[height, width, 4] uint8: RGB and alpha, all pixels."""
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2RGBA), np.uint8)
