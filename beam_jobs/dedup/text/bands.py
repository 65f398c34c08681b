"""Bands of a signature: documents that agree in all rows of one are worth a second look.

Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, 3rd edition, section 3.4: two sets of
Jaccard similarity s agree in some of b bands of r rows with probability 1 - (1 - s**r)**b.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs.dedup.text.signatures import SIGNATURE
from shard_format import UsageError, mix

# At the threshold itself; above it recall rises fast.
LEAST_RECALL = 0.99


class Bands(NamedTuple):
    """How a signature is cut.

    Attributes:
        bands: How many there are.
        rows: Places of a signature in each.
    """

    bands: int
    rows: int

    def recall(self, similarity: float) -> float:
        """The chance that two documents of some similarity meet in a band."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)


def choose_bands(threshold: float) -> Bands:
    """The longest bands that still find 99 % of the pairs at the threshold.

    The longer the bands, the fewer pairs below the threshold meet: 21 bands of 6 rows at 0.8 bring
    0.998 of the pairs of similarity 0.8 together, 0.28 of those of 0.5, and 0.00002 of 0.1.

    Raises:
        UsageError: The threshold is so low that 128 places cannot find such pairs.
    """
    for rows in range(SIGNATURE, 0, -1):
        cut = Bands(SIGNATURE // rows, rows)
        if cut.recall(threshold) >= LEAST_RECALL:
            return cut
    raise UsageError(
        f"--near-threshold must be at least 0.04 for documents, got {threshold}. Try 0.8."
    )


def band_keys(signatures: npt.NDArray[np.uint32], cut: Bands, band: int) -> npt.NDArray[np.uint64]:
    """[n] a hash of one band of [n, SIGNATURE] signatures."""
    keys = np.full(len(signatures), band, np.uint64)
    for place in range(band * cut.rows, (band + 1) * cut.rows):
        keys = mix(keys ^ signatures[:, place])
    return keys
