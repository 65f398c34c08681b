"""Thumbnails of synthetic images with the statistics of real ones, to measure scale.

An image is a sample of the normal distribution with the mean and covariance of given images (over
the 144 lowest DCT coefficients, and the variances of the others). So the bits of its hash are as
biased and as correlated as those of the given images. It is larger than a thumbnail, so that it can
be cropped before it is shrunk.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from beam_jobs.dedup.images.hash_format import HASH_BYTES, LUMA_BYTES, LUMA_SIDE, THUMBNAIL_BYTES
from beam_jobs.images.decode import Pixels
from beam_jobs.images.perceptual_hash import hash_luma

SIDE = 64  # pixels of an image before it becomes a thumbnail
PLANTED = 20  # one in so many is a copy
_LOW = 12  # frequencies a side with full covariance
_BLOCK = 500
_CROPS = (0.0, 0.03, 0.05, 0.10)
_NOISE = 3.0  # levels; about what JPEG at quality 50 leaves at this size

FloatArray = npt.NDArray[np.float64]


class Model:
    """The distribution of the given images."""

    def __init__(self, luma: Pixels) -> None:
        """Args: luma: [n, SIDE, SIDE] uint8 of n images."""
        self._cosines = _cosines()
        spectra = self._cosines @ luma.astype(np.float64) @ self._cosines.T
        low = spectra[:, :_LOW, :_LOW].reshape(len(luma), -1)
        self._mean = low.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(low.T))
        self._factor = vectors * np.sqrt(values.clip(0))
        self._deviation = spectra.std(axis=0)
        self._deviation[:_LOW, :_LOW] = 0

    def draw(self, count: int, generator: np.random.Generator) -> Pixels:
        """[count, SIDE, SIDE] images."""
        spectra = generator.standard_normal((count, SIDE, SIDE)) * self._deviation
        low = generator.standard_normal((count, len(self._mean))) @ self._factor.T + self._mean
        spectra[:, :_LOW, :_LOW] = low.reshape(count, _LOW, _LOW)
        pixels = self._cosines.T @ spectra @ self._cosines
        return pixels.clip(0, 255).astype(np.uint8)


def _cosines() -> FloatArray:
    """[frequency, pixel] orthonormal DCT-II."""
    pixel, frequency = np.arange(SIDE), np.arange(SIDE)[:, np.newaxis]
    cosines = np.cos(np.pi * frequency * (2 * pixel + 1) / (2 * SIDE)) * np.sqrt(2 / SIDE)
    cosines[0] /= np.sqrt(2)
    return np.asarray(cosines, np.float64)


def _copy(image: Pixels, generator: np.random.Generator) -> Pixels:
    """The image cropped (or not), stretched to its old size, with noise."""
    part = generator.choice(_CROPS)
    left, top = part * SIDE * generator.random(2)
    scale = 1 - part
    matrix = np.array([[scale, 0, left + scale / 2 - 0.5], [0, scale, top + scale / 2 - 0.5]])
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    cropped = cv2.warpAffine(
        image, matrix, (SIDE, SIDE), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
    noisy = cropped + generator.normal(0, _NOISE, cropped.shape)
    return np.asarray(noisy.clip(0, 255).astype(np.uint8))


def make_looks(folder: Path, luma: Pixels, count: int) -> Path:
    """hashes.npy and thumbnails.npy of `count` images, created once and reused.

    The last 1 / PLANTED of the rows are copies of the first, in the same order.
    """
    done = folder / "complete"
    if done.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    hashes = np.lib.format.open_memmap(folder / "hashes.npy", "w+", np.uint8, (count, HASH_BYTES))
    thumbnails = np.lib.format.open_memmap(
        folder / "thumbnails.npy", "w+", np.uint8, (count, THUMBNAIL_BYTES)
    )
    thumbnails[:, LUMA_BYTES:] = 128

    def put(start: int, images: Pixels) -> None:
        rows = slice(start, start + len(images))
        size = (LUMA_SIDE, LUMA_SIDE)
        small = [cv2.resize(one, size, interpolation=cv2.INTER_AREA) for one in images]
        hashes[rows] = hash_luma(np.stack(small))
        thumbnails[rows, :LUMA_BYTES] = np.stack(small).reshape(len(small), -1)

    model, generator = Model(luma), np.random.default_rng(20)
    copies = count // PLANTED
    for start in range(0, count - copies, _BLOCK):
        images = model.draw(min(_BLOCK, count - copies - start), generator)
        put(start, images)
        copied = images[: max(0, copies - start)]
        if len(copied):
            put(count - copies + start, np.stack([_copy(one, generator) for one in copied]))
    done.write_text(str(count))
    return folder
