"""The bytes of a perceptual hash and of a thumbnail.

`images/perceptual_hash.py` writes them when an image is staged, `candidates.py` and
`pair_verifier.py` read them in planning.

A hash has a 64-bit code for each of 14 views of an image, and the weak bits of the first:

    bytes   0 to 112   codes [VIEWS] uint64, big-endian; view 0 is the whole image
    bytes 112 to 128   certainty [2] uint64, big-endian, of the bits of view 0
    bytes 128 to 164   weak bits [BANDS, WEAK_BITS] uint8: of each band, the least certain first

Bit i of a code, from the highest, is set if the i-th DCT coefficient of that view is above a small
threshold, in the order of `FREQUENCIES`. It is the more certain the further the coefficient is from
the threshold; its certainty, in quarters of the 64 bits, is 0 to 3, with the low bit in the first
and the high bit in the second number. A cropped image has, as a whole, nearly the code of one of
the views of its original. The hash of a flat image is zero.

A thumbnail is the luma [32, 32] followed by the chroma [2, 8, 8] (Cb, Cr), all uint8, of the
upright image stretched to a square.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

LUMA_SIDE = 32  # pixels
CHROMA_SIDE = 8
LUMA_BYTES = LUMA_SIDE * LUMA_SIDE
THUMBNAIL_BYTES = LUMA_BYTES + 2 * CHROMA_SIDE * CHROMA_SIDE

# Edges of a view and of a crop are in this part of the side.
EDGE_UNITS = 160
# What is cut off (first edge, last edge) of rows and of columns, in EDGE_UNITS: nothing, 5 % in 2
# ways, 10 % in 3. Any other crop up to 10 % is at most 2.5 % of the side from one of them.
_CUTS = (((0, 0),), ((0, 8), (8, 0)), ((0, 16), (8, 8), (16, 0)))
# (top, bottom, left, right) of every view.
WINDOWS = tuple(
    (*rows, *columns) for cuts in _CUTS for rows, columns in itertools.product(cuts, cuts)
)
VIEWS = len(WINDOWS)

CODE_BITS = 64
# (vertical, horizontal) frequency behind every bit, from low to high; (0, 0) is mere brightness.
FREQUENCIES = tuple(
    sorted(
        set(itertools.product(range(12), range(12))) - {(0, 0)},
        key=lambda pair: (pair[0] ** 2 + pair[1] ** 2, pair),
    )[:CODE_BITS]
)

# A band is a choice of 28 bits that must be equal for two images to be compared: the lowest 12,
# which are the most certain, and every third of the next 48.
BANDS = 3
BAND_BITS = 28
BAND_POSITIONS: npt.NDArray[np.int64] = np.array(
    [[*range(12), *range(12 + band, 60, BANDS)] for band in range(BANDS)]
)
WEAK_BITS = 12

CODES_BYTES = VIEWS * 8
CERTAINTY_BYTES = 16
HASH_BYTES = CODES_BYTES + CERTAINTY_BYTES + BANDS * WEAK_BITS

# An image among others: a number of the content of its hash, and whose hash it is.
HASHED = np.dtype([("content", np.uint64), ("record", np.int64), ("hash", np.uint8, (HASH_BYTES,))])


def view_codes(hashes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """[n, VIEWS] uint64 of hashes [n, HASH_BYTES]."""
    return np.ascontiguousarray(hashes[:, :CODES_BYTES]).view(">u8").astype(np.uint64)


def bit_flags(positions: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """For every position, the number with that bit set."""
    return np.uint64(1) << (CODE_BITS - 1 - positions).astype(np.uint64)


def certainty(hashes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """[n, 2] uint64: the low and the high bits of the certainty of every bit of view 0."""
    planes = hashes[:, CODES_BYTES : CODES_BYTES + CERTAINTY_BYTES]
    return np.ascontiguousarray(planes).view(">u8").astype(np.uint64)


def weak_bits(hashes: npt.NDArray[np.uint8], band: int) -> npt.NDArray[np.uint8]:
    """[n, WEAK_BITS] positions in the code of view 0, the least certain of the band first."""
    start = CODES_BYTES + CERTAINTY_BYTES + band * WEAK_BITS
    return hashes[:, start : start + WEAK_BITS]


def is_flat(hashes: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """[n] whether the image has too little contrast to compare its structure."""
    return np.asarray(~hashes.any(axis=1), np.bool_)
