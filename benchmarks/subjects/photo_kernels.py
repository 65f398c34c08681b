"""What every program does with a photograph: decode, resize, encode, by the kernels of shardmill.

It needs simplejpeg and OpenCV alone, so that peers can import it.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg

SIDE = 256
QUALITY = 90


def resized(path: str) -> npt.NDArray[np.uint8]:
    """[height, width, 3] uint8: one photograph, its shorter side of `SIDE` pixels."""
    with open(path, "rb", buffering=0) as file:
        data = file.readall()
    pixels = simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False)
    height, width = pixels.shape[:2]
    shorter = min(height, width)
    size = (round(width * SIDE / shorter), round(height * SIDE / shorter))
    return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)


def encoded(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A JPEG with shardmill's settings."""
    return simplejpeg.encode_jpeg(pixels, quality=QUALITY, colorspace="RGB", colorsubsampling="420")
