"""Verifies candidate pairs: the similarity of two thumbnails after alignment.

The fine structure of the thumbnails is compared: lightly smoothed, and minus the mean of the 7 x 7
pixels around. Photographs of similar things on similar backgrounds agree in their coarse structure;
of 156,520 pairs of different clothing photographs the most similar have a correlation of 0.94 in
luma. Smoothing compensates for the resampling of a crop.

Windows of a thumbnail are cut out by matrices of integers that stretch them to the full square. All
sums are of integers below 2**24, so float32 holds them exactly, and the one division and root are
rounded alike on every CPU (IEEE 754). So a similarity near the threshold falls on the same side of
it everywhere (decision 0005).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from beam_jobs.dedup.images.hash_format import EDGE_UNITS, LUMA_BYTES, LUMA_SIDE, WINDOWS

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
Thumbnails = npt.NDArray[np.uint8]

# The most that is cut off one edge, in EDGE_UNITS: 12.5 % of the side.
MAX_CUT = 20
# Every row of a matrix sums to this.
WEIGHT_SUM = 64
_PAIRS = 64  # at a time: 5 MiB of scratch memory, which stay in the processor's cache
_PIXELS = LUMA_SIDE * LUMA_SIDE
_SMOOTH = (1, 6, 1)
_COARSE = (1,) * 7
# Fine structure is stored in half levels, within -127 to 127: 127**2 * 1024 < 2**24.
_LIMIT = 127
# The edges of the window are moved by these steps, in EDGE_UNITS: rows, columns, rows, ... A true
# pair is at most 2.5 % of the side, 4 units, away from the view by which it was found.
_STEPS = (4, 4, 2, 2, 1, 1)
_MOVES = np.array(list(itertools.product((-1, 0, 1), repeat=2)))
_STARTS = np.array(WINDOWS)
# How far below the threshold a pair may be before each of these steps to be worth it. Of 23,000
# true pairs that ended above the threshold, 1 in 1,000 was further below before the first two
# steps, none before the others. Most false pairs are given up before the first.
_HOPE = {0: 0.50, 1: 0.45, 2: 0.22, 4: 0.06}
# Pairs of this similarity are aligned already.
_ALIGNED = 0.98
# Allowed mean difference of chroma, in levels of 255, and the additional one per unit that is cut
# off all edges together, since chroma is not aligned. Of 560 photographs, resized copies differed
# by 1 at most, mild changes of tone by 6, crops of 3, 5 and 10 % by 4, 6 and 12.
_COLOUR_LIMIT = 8.0
_COLOUR_PER_CUT = 0.25


class PairVerifier:
    """Compares thumbnails. Has scratch memory, so every thread needs its own instance."""

    def __init__(self) -> None:
        square = (LUMA_SIDE, LUMA_SIDE)
        self._squares = [np.empty((_PAIRS, *square), np.float32) for _ in range(5)]
        self._matrices = np.empty((_PAIRS, len(_MOVES), *square), np.float32)
        self._cuts = np.empty_like(self._matrices)

    def similarities(
        self, parts: Thumbnails, wholes: Thumbnails, views: IntArray, threshold: float
    ) -> Float64Array:
        """[k] similarity of each part to the whole that it may be a crop of, in [0, 1].

        The normalised correlation of the fine structures, with the window of the whole for which it
        is greatest; 0 where the colours differ. Below the threshold it may be too low.

        Args:
            parts: [k, THUMBNAIL_BYTES].
            wholes: [k, THUMBNAIL_BYTES], of which windows near the given view are tried.
            views: [k] in [0, VIEWS).
            threshold: Pairs that are too far below it after some steps are given up.
        """
        values = np.zeros(len(parts))
        for start in range(0, len(parts), _PAIRS):
            few = slice(start, start + _PAIRS)
            values[few] = self._compare(parts[few], wholes[few], _STARTS[views[few]], threshold)
        return values

    def _compare(
        self, parts: Thumbnails, wholes: Thumbnails, windows: IntArray, threshold: float
    ) -> Float64Array:
        part, whole = self.fine_structure(parts), self.fine_structure(wholes)
        best = _correlation(part, self._cut(whole, windows)[:, np.newaxis])[:, 0]
        hopeful = np.flatnonzero(best < _ALIGNED)
        for turn, step in enumerate(_STEPS):
            if turn in _HOPE:
                hopeful = hopeful[best[hopeful] >= threshold - _HOPE[turn]]
            best[hopeful], windows[hopeful] = self._align(
                part[hopeful], whole[hopeful], windows[hopeful], step, rows=turn % 2 == 0
            )
        allowed = _COLOUR_LIMIT + _COLOUR_PER_CUT * windows.sum(axis=1)
        best[colour_differences(parts, wholes) > allowed] = 0
        return best.clip(0, 1)

    def fine_structure(self, thumbnails: Thumbnails) -> Float32Array:
        """[k, LUMA_SIDE, LUMA_SIDE] integers in [-127, 127]; k up to 64."""
        luma, lines, coarse = (square[: len(thumbnails)] for square in self._squares[:3])
        luma[:] = thumbnails[:, :LUMA_BYTES].reshape(-1, LUMA_SIDE, LUMA_SIDE)
        np.matmul(_SMOOTH_MATRIX, luma, out=lines)
        fine = np.matmul(lines, _SMOOTH_MATRIX.T)
        fine *= sum(_COARSE) ** 2
        np.matmul(_COARSE_MATRIX, luma, out=lines)
        np.matmul(lines, _COARSE_MATRIX.T, out=coarse)
        coarse *= sum(_SMOOTH) ** 2
        fine -= coarse
        # In half levels: rounding to whole ones would cost images of little contrast too much.
        fine /= sum(_COARSE) ** 2 * sum(_SMOOTH) ** 2 / 2
        np.rint(fine, out=fine)
        return np.clip(fine, -_LIMIT, _LIMIT, out=fine)

    def _cut(self, whole: Float32Array, windows: IntArray) -> Float32Array:
        """[k, LUMA_SIDE, LUMA_SIDE]: a window of each, stretched to the full square."""
        rows, columns, lines, cut = (square[: len(whole)] for square in self._squares[:4])
        window_matrices(windows[:, :2], out=rows)
        window_matrices(windows[:, 2:], out=columns)
        np.matmul(rows, whole, out=lines)
        return _rounded(np.matmul(lines, columns.transpose(0, 2, 1), out=cut))

    def _align(
        self, part: Float32Array, whole: Float32Array, windows: IntArray, step: int, rows: bool
    ) -> tuple[Float64Array, IntArray]:
        """The best correlation and its windows, if two opposite edges move by up to a step."""
        count = len(part)
        tried = np.repeat(windows[:, np.newaxis], len(_MOVES), axis=1)
        moved, fixed = (
            (tried[..., :2], tried[:, 0, 2:]) if rows else (tried[..., 2:], tried[:, 0, :2])
        )
        moved[:] = (moved + step * _MOVES).clip(0, MAX_CUT)
        if not rows:
            # The same on the transposed images, so that rows move.
            part, whole = part.transpose(0, 2, 1), whole.transpose(0, 2, 1)
        across, lines = (square[:count] for square in self._squares[:2])
        window_matrices(fixed, out=across)
        np.matmul(whole, across.transpose(0, 2, 1), out=lines)
        along, cut = self._matrices[:count], self._cuts[:count]
        window_matrices(moved, out=along)
        np.matmul(along, lines[:, np.newaxis], out=cut)
        values = _correlation(part, _rounded(cut))
        each, choice = np.arange(count), values.argmax(axis=1)
        return values[each, choice], tried[each, choice]


def _filter_matrix(weights: Sequence[int]) -> Float32Array:
    """[LUMA_SIDE, LUMA_SIDE] of a filter along one side; the border is repeated."""
    matrix = np.zeros((LUMA_SIDE, LUMA_SIDE), np.float32)
    for target, (tap, weight) in itertools.product(range(LUMA_SIDE), enumerate(weights)):
        source = min(max(target + tap - len(weights) // 2, 0), LUMA_SIDE - 1)
        matrix[target, source] += weight
    return matrix


_SMOOTH_MATRIX = _filter_matrix(_SMOOTH)
_COARSE_MATRIX = _filter_matrix(_COARSE)


def _rounded(sums: Float32Array) -> Float32Array:
    """The sums of weighted pixels as pixels; in place."""
    sums *= 1 / (WEIGHT_SUM * WEIGHT_SUM)
    return np.rint(sums, out=sums)


def _correlation(part: Float32Array, cut: Float32Array) -> Float64Array:
    """[k, moves] normalised correlation of [k, side, side] with [k, moves, side, side].

    0 where either has no structure at all.
    """
    part, cut = part.reshape(-1, _PIXELS), cut.reshape(*cut.shape[:2], _PIXELS)
    products = np.matmul(cut, part[:, :, np.newaxis])[..., 0].astype(np.float64)
    energies = np.einsum("kmp,kmp->km", cut, cut).astype(np.float64)
    energies *= np.einsum("kp,kp->k", part, part).astype(np.float64)[:, np.newaxis]
    return products / np.sqrt(np.maximum(energies, 1.0))


def colour_differences(left: Thumbnails, right: Thumbnails) -> Float64Array:
    """[k] mean absolute difference of the chroma planes, in levels."""
    difference = left[:, LUMA_BYTES:].astype(np.int16) - right[:, LUMA_BYTES:]
    return np.abs(difference).sum(axis=1) / difference.shape[1]


def window_matrices(cuts: IntArray, out: Float32Array) -> Float32Array:
    """Fills `out` [..., LUMA_SIDE, LUMA_SIDE] with matrices that stretch the rest of a side.

    Args:
        cuts: [..., 2] what is cut off at the start and at the end, in EDGE_UNITS, in [0, MAX_CUT].
        out: Reused, since new memory would cost more than the arithmetic.
    """
    numbers = cuts[..., 0] * (MAX_CUT + 1) + cuts[..., 1]
    # Without a mode, `take` copies `out` to be safe from bad numbers.
    return np.take(_MATRICES, numbers, axis=0, out=out, mode="clip")


def _matrix(first: int, last: int) -> IntArray:
    """[target, source] weights: the part of every target pixel that is in each source pixel.

    Positions are in 1 / (EDGE_UNITS LUMA_SIDE) of the side, where all edges are whole numbers.
    """
    width = EDGE_UNITS - first - last  # of a target pixel
    starts = first * LUMA_SIDE + width * np.arange(LUMA_SIDE)[:, np.newaxis]
    pixels = EDGE_UNITS * np.arange(LUMA_SIDE)
    overlap = np.minimum(starts + width, pixels + EDGE_UNITS) - np.maximum(starts, pixels)
    weights = (2 * WEIGHT_SUM * overlap.clip(0) + width) // (2 * width)
    # The rounding error goes to the largest weight, where it matters least.
    weights[np.arange(LUMA_SIDE), weights.argmax(axis=1)] += WEIGHT_SUM - weights.sum(axis=1)
    return np.asarray(weights, np.int64)


# [(MAX_CUT + 1)**2, LUMA_SIDE, LUMA_SIDE]: 2 MiB
_MATRICES = np.array(
    [_matrix(first, last) for first in range(MAX_CUT + 1) for last in range(MAX_CUT + 1)],
    np.float32,
)
