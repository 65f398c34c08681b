"""From JPEG bytes to a random crop by the kernels of shardmill's reader, and nothing around them.

For peers that leave decoding to the caller: so all do the same work.
"""

from __future__ import annotations

import math
import random
from typing import Any

import cv2
import numpy as np
import simplejpeg

from benchmarks.subjects.clock import AREA, RATIO, SIDE


def write_crop(jpeg: Any, target: Any) -> None:
    """Decodes a JPEG, and writes a random crop of it to [SIDE, SIDE, 3] uint8, mirrored or not."""
    image = simplejpeg.decode_jpeg(jpeg, "RGB", fastdct=True, fastupsample=False)
    top, left, height, width = _crop_of(*image.shape[:2])
    image = image[top : top + height, left : left + width]
    if random.random() < 0.5:
        image = cv2.flip(image, 1)
    cv2.resize(image, (SIDE, SIDE), dst=target, interpolation=cv2.INTER_LINEAR)


def crop(jpeg: Any) -> Any:
    """[SIDE, SIDE, 3] uint8 of an array of its own."""
    target = np.empty((SIDE, SIDE, 3), np.uint8)
    write_crop(jpeg, target)
    return target


def _crop_of(height: int, width: int) -> tuple[int, int, int, int]:
    """Top, left, height and width: the distribution of shardmill's reader."""
    ratio = RATIO[1] ** (2 * random.random() - 1)
    most = min(height * height * ratio, width * width / ratio)
    low, high = (min(share * height * width, most) for share in AREA)
    area = low + random.random() * (high - low)
    tall = min(max(round(math.sqrt(area / ratio)), 1), height)
    wide = min(max(round(math.sqrt(area * ratio)), 1), width)
    top, left = random.random() * (height - tall + 1), random.random() * (width - wide + 1)
    return int(top), int(left), tall, wide
