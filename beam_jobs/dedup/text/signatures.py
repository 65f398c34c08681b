"""MinHash signatures: the share of equal places estimates the Jaccard similarity (Broder 1997).

A place is the minimum over all shingles of their hash times an odd number, modulo 2**32: a
bijection, so no two shingles tie. The hashes are as good as random, and then such a simple function
is as good as a random one (Mitzenmacher, Vadhan: Why Simple Hash Functions Work, SODA 2008).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.dedup.text.shingles import Shingles, shingles
from shard_format import mix

SIGNATURE = 128  # places: uint32 each, little-endian where stored
SIGNATURE_BYTES = 4 * SIGNATURE
# 128 KiB of shingles, and as much of products: they stay in the second-level cache while all places
# are computed.
_BLOCK = 1 << 15
_SEED = 0x4D494E48415348  # "MINHASH"
_FACTORS = (mix(_SEED + np.arange(SIGNATURE)) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)

# To find near duplicates: 128 uint32, and the hashes of all word 5-grams, which take about two
# thirds of the bytes of the text and are read for candidate pairs only.
NEAR_FIELDS = (
    pa.field("near_signature", pa.binary(SIGNATURE_BYTES), nullable=False),
    pa.field("near_shingles", pa.large_list(pa.uint32()), nullable=False),
)


def near_columns(text: pa.LargeStringArray) -> dict[str, pa.Array]:
    """[n] each: the columns of NEAR_FIELDS of some texts."""
    sets = shingles(text)
    stored = pa.py_buffer(signatures(sets).astype("<u4").tobytes())
    kind = pa.binary(SIGNATURE_BYTES)
    return {
        "near_signature": pa.FixedSizeBinaryArray.from_buffers(kind, len(text), [None, stored]),
        "near_shingles": sets.column(),
    }


def signatures(sets: Shingles) -> npt.NDArray[np.uint32]:
    """[n, SIGNATURE] uint32 of n documents; the greatest number where a document has no shingle."""
    minima = np.full((len(sets.begins) - 1, SIGNATURE), np.iinfo(np.uint32).max, np.uint32)
    some = np.flatnonzero(np.diff(sets.begins))
    starts = sets.begins[some]
    for first, last in _blocks(starts):
        begin = starts[first]
        end = starts[last] if last < len(starts) else len(sets.hashes)
        hashes = sets.hashes[begin:end]
        inside = starts[first:last] - begin
        products = np.empty_like(hashes)
        least = np.empty((SIGNATURE, last - first), np.uint32)
        for place, factor in enumerate(_FACTORS):
            np.multiply(hashes, factor, out=products)
            np.minimum.reduceat(products, inside, out=least[place])
        minima[some[first:last]] = least.T
    return minima


def _blocks(starts: IntArray) -> list[tuple[int, int]]:
    """Ranges of documents with about `_BLOCK` shingles, or one document with more."""
    if not len(starts):
        return []
    edges = np.flatnonzero(np.diff(starts // _BLOCK, prepend=-1))
    return list(zip(edges.tolist(), [*edges[1:].tolist(), len(starts)], strict=True))
