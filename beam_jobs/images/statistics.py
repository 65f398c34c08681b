"""Mean, standard deviation and range of the channels, from exact integer sums.

`count_pixels` sums over one image when it is staged; the sums are columns of the index, and
`PixelSums` adds them up over a split.
"""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs import bounds
from beam_jobs.columns import Columns
from beam_jobs.counters import Sums
from beam_jobs.images.decode.base import Pixels

STEP = 4  # every 4th row and column: a 16th of the pixels suffices for mean and deviation
MIN_SIDE = 32  # all pixels of an image with a shorter side are counted

PIXEL_FIELDS = (
    pa.field("pixel_count", pa.int64()),  # number of counted pixels, or 0
    pa.field("pixel_sum", pa.list_(pa.int64(), 3)),  # red, green, blue; null without counted pixels
    pa.field("pixel_sum_squares", pa.list_(pa.int64(), 3)),
    pa.field("pixel_min", pa.list_(pa.uint8(), 3)),
    pa.field("pixel_max", pa.list_(pa.uint8(), 3)),
)
NOT_COUNTED: dict[str, Any] = {field.name: None for field in PIXEL_FIELDS} | {"pixel_count": 0}
# Squares of one image sum to at most 2**40, so these fit an int64; Python adds the chunks.
_CHANNELS = 3


def count_pixels(image: Pixels) -> dict[str, Any]:
    """A value for each of `PIXEL_FIELDS`.

    Rows 0, 4, 8, ... are counted, and columns 0, 4, 8, ... of whole groups of four.

    Args:
        image: [height, width, 3] uint8, RGB.
    """
    few = min(image.shape[:2]) < MIN_SIDE
    counted = cv2.cvtColor(image, cv2.COLOR_RGB2RGBA) if few else _every_fourth(image)
    rows = counted.reshape(counted.shape[0], -1)
    count = counted.shape[0] * counted.shape[1]
    means, deviations = (values.ravel().tolist()[:3] for values in cv2.meanStdDev(counted))
    return {
        "pixel_count": count,
        # OpenCV adds integers and divides in float64 at the end. So these products have an error
        # below 0.01 even for 178 million pixels, and rounding restores the integers.
        "pixel_sum": [round(mean * count) for mean in means],
        "pixel_sum_squares": [
            round((deviation * deviation + mean * mean) * count)
            for mean, deviation in zip(means, deviations, strict=True)
        ],
        # By column first, since numpy is fast along rows and slow over triples.
        "pixel_min": np.minimum.reduce(np.minimum.reduce(rows).reshape(-1, 4)).tolist()[:3],
        "pixel_max": np.maximum.reduce(np.maximum.reduce(rows).reshape(-1, 4)).tolist()[:3],
    }


def _every_fourth(image: Pixels) -> Pixels:
    """[ceil(height / 4), floor(width / 4), 4] uint8: RGB, and a meaningless byte.

    numpy takes four times as long to pick pixels of three bytes as words of four. Twelve bytes are
    four pixels and three words, so every third word begins with a wanted pixel.
    """
    width = image.shape[1] // STEP
    rows = np.ascontiguousarray(image[::STEP, : STEP * width]).reshape(-1, STEP * width * 3)
    words = np.ascontiguousarray(rows.view(np.uint32)[:, ::3])
    return words.view(np.uint8).reshape(len(rows), width, 4)


class PixelSums(Sums):
    """Sums over the counted pixels of images.

    All numbers are integers until the last division and root, so the order of the records and the
    number of shards have no effect on the result, not even on its last bit.
    """

    def __init__(self) -> None:
        self._count = 0
        # Of Python's integers, which have no bound.
        self._sums, self._squares = np.zeros((2, _CHANNELS), object)
        self._least = np.full(_CHANNELS, 255, np.uint8)
        self._most = np.zeros(_CHANNELS, np.uint8)

    @override
    def add(self, rows: pa.Table) -> None:
        """Adds rows with `PIXEL_FIELDS`; counts of 0 are left out."""
        pixels = rows.select([field.name for field in PIXEL_FIELDS])
        for batch in pixels.to_batches(max_chunksize=bounds.SUMMARIZED_ROWS):
            batch = batch.filter(pc.greater(batch["pixel_count"], 0))
            if batch.num_rows:
                self._add(
                    int(batch["pixel_count"].to_numpy().sum()),
                    _channels(batch["pixel_sum"]).sum(axis=0),
                    _channels(batch["pixel_sum_squares"]).sum(axis=0),
                    _channels(batch["pixel_min"]).min(axis=0),
                    _channels(batch["pixel_max"]).max(axis=0),
                )

    def _add(self, count: int, sums: Any, squares: Any, least: Any, most: Any) -> None:
        self._count += count
        self._sums += sums
        self._squares += squares
        self._least = np.minimum(self._least, least)
        self._most = np.maximum(self._most, most)

    @override
    def values(self) -> list[Any]:
        arrays = (self._sums, self._squares, self._least, self._most)
        return [self._count, *(array.tolist() for array in arrays)]

    @override
    def merge(self, values: list[Any]) -> None:
        count, sums, squares, least, most = values
        extremes = (np.array(one, np.uint8) for one in (least, most))
        self._add(count, np.array(sums, object), np.array(squares, object), *extremes)

    @override
    def statistics(self) -> dict[str, Any]:
        return {"pixels": merged} if (merged := self.merged()) else {}

    def merged(self) -> dict[str, Any]:
        """{"count", "mean", "std", "min", "max"} over the counted pixels.

        "count" is a number of pixels; the others are lists of red, green and blue in [0, 255]. The
        deviation is that of the population. Empty if no pixel was counted.
        """
        count, sums, squares = self._count, self._sums, self._squares
        if not count:
            return {}
        variances = (count * squares - sums * sums) / (count * count)
        return {
            "count": count,
            "mean": (sums / count).tolist(),
            "std": [math.sqrt(variance) for variance in variances],
            "min": self._least.tolist(),
            "max": self._most.tolist(),
        }


def merge_pixels(columns: Columns) -> dict[str, Any]:
    """The result of `PixelSums`.

    Args:
        columns: Columns that include `PIXEL_FIELDS`, rows in any order; counts of 0 are left out.
    """
    sums = PixelSums()
    for table in columns([field.name for field in PIXEL_FIELDS]):
        sums.add(table)
    return sums.merged()


def _channels(column: pa.Array) -> Any:
    """[rows, 3]: the values of a column of fixed-size lists without nulls."""
    return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, _CHANNELS)
