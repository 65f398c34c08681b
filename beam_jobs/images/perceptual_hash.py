"""Perceptual hashes, 164 bytes to find near duplicates, and thumbnails, 1,152 to verify them.

Both are robust against what happens to images on the web: another size, another JPEG quality, a
mild change of tone, a narrow crop. `beam_jobs/dedup/images` compares them, and its `hash_format.py`
describes every byte.

All arithmetic is exact, so that every CPU gives the same bytes: the kernels of decision 0005, then
integers. Some are stored as float64, for which matrix products are fast; they stay below 2**53, so
neither the order of summation nor a fused multiply-add changes them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

import beam_jobs.images.resize  # noqa: F401 (configures OpenCV: one thread, no IPP)
from beam_jobs.dedup.images.hash_format import (
    BAND_POSITIONS,
    CHROMA_SIDE,
    CODE_BITS,
    EDGE_UNITS,
    FREQUENCIES,
    LUMA_BYTES,
    LUMA_SIDE,
    THUMBNAIL_BYTES,
    WEAK_BITS,
    WINDOWS,
)
from beam_jobs.images.decode.base import Pixels

FloatArray = npt.NDArray[np.float64]

# 12 bits of cosine, 8 of pixel and 5 of sum a side: products stay below 2**43. Without their 20
# lowest bits, the sum of 64 squares stays below 2**53, and its root rounds alike everywhere.
_BASIS_SCALE = 1 << 12
_COEFFICIENT_SHIFT = 1 << 20
# A bit is set where a coefficient exceeds this part of the root of the sum of squares. In symmetric
# images many coefficients are zero but for noise, and would be random at a threshold of 0.
_THRESHOLD = 1 / 64
# Luma levels between the darkest and the brightest pixel of a thumbnail. JPEG at quality 50 leaves
# noise of about 2 levels after shrinking.
_FLAT_RANGE = 6
_HALVE_FROM = 256  # pixels a side
# Rec. 601 in 1/256, as in JPEG (JFIF 1.02). Chroma is clipped, since pure colours round up to 256.
_LUMA = np.array([77.0, 150, 29])
_CHROMA = np.array([[-43.0, 128], [-85, -107], [128, -21]])
# Sums of blocks of pixels along a side; the scale of a sum of both sides, in 1/256.
_BLOCKS = np.repeat(np.eye(CHROMA_SIDE), LUMA_SIDE // CHROMA_SIDE, axis=1)
_BLOCK_SCALE = (LUMA_SIDE // CHROMA_SIDE) ** 2 * 256
_BANDS = np.arange(len(BAND_POSITIONS))[:, np.newaxis]  # a row of BAND_POSITIONS each


class PerceptualHash(NamedTuple):
    """The values by which near duplicates are found; names are columns of the sidecar.

    Attributes:
        perceptual_hash: `hash_format.HASH_BYTES` bytes.
        thumbnail: `hash_format.THUMBNAIL_BYTES` bytes.
    """

    perceptual_hash: bytes
    thumbnail: bytes


def perceive(pixels: Pixels, to_srgb: Callable[[Pixels], Pixels] | None = None) -> PerceptualHash:
    """The perceptual hash and the thumbnail of one image; see `thumbnail_of`."""
    thumbnail = thumbnail_of(pixels, to_srgb)
    return PerceptualHash(perceptual_hashes([thumbnail])[0], thumbnail)


def thumbnail_of(pixels: Pixels, to_srgb: Callable[[Pixels], Pixels] | None = None) -> bytes:
    """`hash_format.THUMBNAIL_BYTES` bytes of an image.

    Args:
        pixels: [height, width, 3] uint8, RGB, upright, at least 1 x 1; best before any --resize.
        to_srgb: See DecodedImage; here it converts the few pixels that are left.
    """
    small = _square(pixels)
    return _thumbnail(small if to_srgb is None else to_srgb(small)).tobytes()


def perceptual_hashes(thumbnails: Sequence[bytes]) -> list[bytes]:
    """`hash_format.HASH_BYTES` bytes of each thumbnail; many at a time take half as long."""
    pixels = np.frombuffer(b"".join(thumbnails), np.uint8).reshape(-1, THUMBNAIL_BYTES)
    hashes = hash_luma(pixels[:, :LUMA_BYTES].reshape(-1, LUMA_SIDE, LUMA_SIDE))
    return [one.tobytes() for one in hashes]


def hash_luma(luma: Pixels) -> Pixels:
    """[n, HASH_BYTES] hashes of the luma [n, LUMA_SIDE, LUMA_SIDE] of thumbnails."""
    count = len(luma)
    columns = np.matmul(luma.astype(np.float64), _BASIS.T)
    products = np.matmul(_BASIS, columns).reshape(count, -1)
    coefficients = np.floor(products[:, _PICKED] / _COEFFICIENT_SHIFT)
    thresholds = np.sqrt(np.square(coefficients).sum(axis=2, keepdims=True)) * _THRESHOLD
    margins = coefficients - thresholds
    codes = np.packbits(margins > 0, axis=2).reshape(count, -1)
    distances = np.abs(margins[:, 0])
    order = np.argsort(distances, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1)  # of a permutation: its inverse
    quarters = ranks // (CODE_BITS // 4)
    certainty = [np.packbits(quarters & 1, axis=1), np.packbits(quarters >> 1, axis=1)]
    order = np.argsort(ranks[:, BAND_POSITIONS], axis=2)[:, :, :WEAK_BITS]
    weak = BAND_POSITIONS[_BANDS, order].astype(np.uint8).reshape(count, -1)
    hashes = np.concatenate([codes, *certainty, weak], axis=1)
    pixels = luma.reshape(count, -1)
    hashes[pixels.max(axis=1) - pixels.min(axis=1) <= _FLAT_RANGE] = 0
    return hashes


def _thumbnail(square: Pixels) -> Pixels:
    """[THUMBNAIL_BYTES] of [LUMA_SIDE, LUMA_SIDE, 3]."""
    pixels = square.reshape(-1, 3).astype(np.float64)
    luma = ((pixels @ _LUMA + 128) / 256).astype(np.uint8)
    columns = (_BLOCKS @ pixels.reshape(LUMA_SIDE, -1)).reshape(CHROMA_SIDE, LUMA_SIDE, 3)
    sums = np.matmul(_BLOCKS, columns) @ _CHROMA  # [CHROMA_SIDE, CHROMA_SIDE, 2]
    means = np.floor(sums.transpose(2, 0, 1) / _BLOCK_SCALE) + 128
    return np.concatenate([luma, means.clip(0, 255).ravel().astype(np.uint8)])


def _square(pixels: Pixels) -> Pixels:
    """[LUMA_SIDE, LUMA_SIDE, 3]: the image stretched to a square.

    Large sides are halved first, for which OpenCV has a kernel six times as fast as the general
    one. An odd side loses its last line: at most 1/256 of it at every step.
    """
    height, width = pixels.shape[:2]
    while max(height, width) >= _HALVE_FROM:
        down, across = 1 + (height >= _HALVE_FROM), 1 + (width >= _HALVE_FROM)
        height, width = height // down, width // across
        pixels = _halved(pixels[: height * down, : width * across], down, across)
    pixels = _resize(pixels, min(width, LUMA_SIDE), min(height, LUMA_SIDE), cv2.INTER_AREA)
    return _resize(pixels, LUMA_SIDE, LUMA_SIDE, cv2.INTER_LINEAR_EXACT)


def _halved(pixels: Pixels, down: int, across: int) -> Pixels:
    """The means of blocks of `down` x `across` pixels, each 1 or 2, at least one of them 2.

    As cv2.INTER_AREA gives them, whose general kernel takes ten times as long for one side alone.
    """
    if down == across:
        height, width = pixels.shape[0] // down, pixels.shape[1] // across
        return _resize(pixels, width, height, cv2.INTER_AREA)
    if across == 2:
        return np.asarray(cv2.transpose(_halved(cv2.transpose(pixels), 2, 1)), np.uint8)
    return np.asarray(cv2.addWeighted(pixels[::2], 0.5, pixels[1::2], 0.5, 0), np.uint8)


def _resize(pixels: Pixels, width: int, height: int, kernel: int) -> Pixels:
    if pixels.shape[:2] == (height, width):
        return pixels
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=kernel), np.uint8)


def _basis() -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """The cosines of all views along one side, and the positions of every view's coefficients.

    The DCT of a view is computed without cutting it out: the cosine covers the window and is
    integrated over the part of each pixel in it, so a window may end within a pixel.

    Returns:
        ([windows * frequencies, LUMA_SIDE] integers, [VIEWS, CODE_BITS] positions in the
        flattened product of basis, luma and transposed basis)
    """
    cuts = sorted({window[:2] for window in WINDOWS})
    frequencies = 1 + max(max(pair) for pair in FREQUENCIES)
    rows = [_integrated_cosine(*cut, frequency) for cut in cuts for frequency in range(frequencies)]
    picked = [
        [
            (cuts.index((top, bottom)) * frequencies + vertical) * len(rows)
            + cuts.index((left, right)) * frequencies
            + horizontal
            for vertical, horizontal in FREQUENCIES
        ]
        for top, bottom, left, right in WINDOWS
    ]
    return np.array(rows, np.float64), np.array(picked)


def _integrated_cosine(first: int, last: int, frequency: int) -> list[int]:
    """For every pixel, the integral of cos(pi frequency t), t running from 0 to 1 in the window.

    In 1 / (_BASIS_SCALE LUMA_SIDE), with the factor sqrt(2) of the DCT for all but frequency 0.
    Rounding removes differences of sin() between C libraries.
    """
    edges = []
    for pixel in range(LUMA_SIDE + 1):
        inside = (pixel * EDGE_UNITS / LUMA_SIDE - first) / (EDGE_UNITS - first - last)
        inside = min(max(inside, 0.0), 1.0)
        angle = math.pi * frequency
        edges.append(math.sqrt(2) * math.sin(angle * inside) / angle if frequency else inside)
    scale = _BASIS_SCALE * LUMA_SIDE
    return [round((after - before) * scale) for before, after in itertools.pairwise(edges)]


_BASIS, _PICKED = _basis()
