"""What every program does with a photograph: decode, resize, encode, by the kernels of shardmill.

It needs simplejpeg and OpenCV alone, so that peers can import it.
"""

from __future__ import annotations

import math

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
    return _sharp(pixels, *size)


def _sharp(pixels: npt.NDArray[np.uint8], width: int, height: int) -> npt.NDArray[np.uint8]:
    """The default filter of shardmill, of images that are not five times as large on both sides."""
    factors = pixels.shape[1] / width, pixels.shape[0] / height
    across, down = (math.sqrt(0.225 * factor * factor - 0.16) for factor in factors)
    taps = [1 + 2 * math.ceil(2 * deviation - 0.2) for deviation in (across, down)]
    smooth = cv2.GaussianBlur(pixels, taps, across, sigmaY=down)
    small = cv2.resize(smooth, (width, height), interpolation=cv2.INTER_LINEAR_EXACT)
    return cv2.addWeighted(small, 2, cv2.GaussianBlur(small, (3, 3), 0.6), -1, 0)


def encoded(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A JPEG with shardmill's settings."""
    return simplejpeg.encode_jpeg(pixels, quality=QUALITY, colorspace="RGB", colorsubsampling="420")
