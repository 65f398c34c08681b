"""From JPEG bytes to a random crop in PyTorch: the usual way, and by the kernels of shardmill.

"pil" is torchvision's RandomResizedCrop on a PIL image. "tuned" decodes with simplejpeg and resizes
with OpenCV, in a third of the time. Neither can decode only a crop, and PIL's draft mode does not
apply: it requires that an image shrinks to half.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import cv2
import torch
from PIL import Image
from torchvision import transforms

from benchmarks.subjects.clock import AREA, RATIO, SIDE
from benchmarks.subjects.pixels import crop

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


def by_kernels(jpeg: bytes) -> Any:
    """[SIDE, SIDE, 3] uint8."""
    return torch.from_numpy(crop(jpeg))


PIXELS: dict[str, Callable[[bytes], Any]] = {"pil": by_pil, "tuned": by_kernels}


def start_worker(number: int = 0) -> None:
    """One thread each, because there is a worker per core: OpenCV would start as many again."""
    cv2.setNumThreads(1)
