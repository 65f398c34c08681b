"""From JPEG bytes to a random crop in PyTorch: the usual way, and the fastest found.

"pil" is torchvision's RandomResizedCrop on a PIL image. "tuned" decodes and resizes with OpenCV,
which took 0.4 of the time; torchvision's decoder took 0.6 to 0.7 with its v2 transforms, and 0.5
with a raw interpolate. None of them can decode only a crop, and
PIL's draft mode does not apply: it requires that an image shrinks to half.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torchvision import transforms

from benchmarks.subjects.clock import AREA, RATIO, SIDE

_PIL = transforms.Compose(
    [
        transforms.RandomResizedCrop(SIDE, AREA, RATIO),
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
    ]
)


def by_pil(jpeg: bytes) -> Any:
    """[3, SIDE, SIDE] uint8."""
    return _PIL(Image.open(io.BytesIO(jpeg)).convert("RGB"))


def by_opencv(jpeg: bytes) -> Any:
    """[SIDE, SIDE, 3] uint8."""
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR_RGB)
    size = torch.empty((3, *image.shape[:2]), device="meta")  # sampling uses nothing else
    top, left, height, width = transforms.RandomResizedCrop.get_params(size, AREA, RATIO)
    image = cv2.resize(image[top : top + height, left : left + width], (SIDE, SIDE))
    return torch.from_numpy(cv2.flip(image, 1) if random.random() < 0.5 else image)


PIXELS: dict[str, Callable[[bytes], Any]] = {"pil": by_pil, "tuned": by_opencv}


def start_worker(number: int = 0) -> None:
    """One thread each, because there is a worker per core: OpenCV would start as many again."""
    cv2.setNumThreads(1)
