"""Measures of one image that need no model: how sharp, bright, varied and colourful it is."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np

from beam_jobs.images.decode.base import Pixels

_LEVELS = 256  # of a channel


class ImageMeasures(NamedTuple):
    """Measures of an image.

    Attributes:
        sharpness: Variance of the Laplacian of the grey image, in squared levels of 0 to 255; 0 and
            more (Pech-Pacheco et al., Diatom autofocusing in brightfield microscopy, 2000). It
            depends on the size of the image.
        brightness: Mean grey level, 0 to 1.
        contrast: Standard deviation of the grey level, 0 to 0.5 (RMS contrast; Peli, Contrast in
            complex images, 1990).
        entropy: Shannon entropy of the histogram of the grey levels, 0 to 8 bits.
        colourfulness: 0 of a grey image, above 82 "quite colourful", above 109 "extremely" (M3 of
            Hasler and Suesstrunk, Measuring colourfulness in natural images, 2003).
        aspect: Width over height.
    """

    sharpness: float
    brightness: float
    contrast: float
    entropy: float
    colourfulness: float
    aspect: float


def measure(image: Pixels) -> ImageMeasures:
    """The measures of an image.

    Args:
        image: [height, width, 3] uint8, RGB.
    """
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    _, edges = _mean_and_deviation(cv2.Laplacian(grey, cv2.CV_16S))
    mean, deviation = _mean_and_deviation(grey)
    height, width = grey.shape
    return ImageMeasures(
        sharpness=edges * edges,
        brightness=mean / (_LEVELS - 1),
        contrast=deviation / (_LEVELS - 1),
        entropy=_entropy(grey),
        colourfulness=_colourfulness(image),
        aspect=width / height,
    )


def _mean_and_deviation(plane: np.ndarray) -> tuple[float, float]:
    mean, deviation = cv2.meanStdDev(plane)
    return float(mean[0, 0]), float(deviation[0, 0])


def _entropy(grey: np.ndarray) -> float:
    counts = np.bincount(grey.ravel(), minlength=_LEVELS)
    shares = counts[counts > 0] / grey.size
    return float(-(shares * np.log2(shares)).sum()) + 0.0  # no -0.0 of a blank image


def _colourfulness(image: Pixels) -> float:
    """Spread of the opponent colours R - G and (R + G) / 2 - B, and how far they are from grey."""
    red, green, blue = cv2.split(image)
    first = _mean_and_deviation(cv2.subtract(red, green, dtype=cv2.CV_16S))
    yellow = cv2.addWeighted(red, 0.5, green, 0.5, 0, dtype=cv2.CV_32F)
    second = _mean_and_deviation(cv2.subtract(yellow, blue, dtype=cv2.CV_32F))
    mean, deviation = (math.hypot(*pair) for pair in zip(first, second, strict=True))
    return deviation + 0.3 * mean
