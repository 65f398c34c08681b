"""Rounds in which many workers find near duplicates: what is common to all kinds of records.

A round has a task for every range, of units or of hashes. A task reads what those of earlier rounds
have sent to its range, and sends rows to ranges of the next one, by an exchange. The pairs are
those that one worker finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import BoolArray, IntArray, run_starts
from beam_jobs.dedup.clusters import connected
from beam_jobs.staging.range_files import RangeFiles
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars

# A pair of duplicates: their records, the lower one first, and how similar they are. Pairs of a
# later turn count only if those of earlier ones do not connect their records: one worker does not
# compare such records.
PAIR = np.dtype(
    [
        ("first", np.int64),
        ("second", np.int64),
        ("similarity", np.float32),
        ("turn", np.int16),
    ]
)


class NearTask(NamedTuple):
    """What a worker does in a round.

    Attributes:
        files: What it reads and writes.
        number: Number of the range.
        noted: What the tasks of earlier rounds have noted, by name, in the order of ranges.
        open_units: Opens the sidecars of a range of units, of which one record of each set of exact
            duplicates is included; their records have numbers from 0.
    """

    files: RangeFiles
    number: int
    noted: Mapping[str, Sequence[Any]]
    open_units: Callable[[], Sidecars]


class NearResult(NamedTuple):
    """What a task of a round returns.

    Attributes:
        sizes: Sizes of the slices that it has sent, by exchange.
        noted: What it notes for later rounds, by name; small.
    """

    sizes: dict[str, bytes]
    noted: dict[str, Any]


class NearRound(NamedTuple):
    """A round of finding near duplicates.

    Attributes:
        name: As a step of the pipeline.
        work: Does a task; doing it again changes nothing.
    """

    name: str
    work: Callable[[NearTask], NearResult]


class NearSearch(NamedTuple):
    """How near duplicates of one kind of record are found in rounds.

    Attributes:
        rounds: The rounds, in order.
        pairs: The exchanges by which these send rows of PAIR to the range of units that has the
            first record. A pair may be sent more than once.
    """

    rounds: Sequence[NearRound]
    pairs: Sequence[str]


def pairs_of(
    one: IntArray, other: IntArray, similarity: npt.NDArray[Any] | float, turn: IntArray | int = 0
) -> StructuredArray:
    """[n] PAIR of records in any order."""
    pairs = np.empty(len(one), PAIR)
    pairs["first"], pairs["second"] = np.minimum(one, other), np.maximum(one, other)
    pairs["similarity"], pairs["turn"] = similarity, turn
    return pairs


def distinct_pairs(pairs: StructuredArray) -> StructuredArray:
    """Every pair once, at its first turn, with the greatest similarity of it; sorted."""
    order = np.lexsort((-pairs["similarity"], pairs["turn"], pairs["second"], pairs["first"]))
    pairs = pairs[order]
    return pairs[run_starts(pairs["first"], pairs["second"])]


def in_their_turn(pairs: StructuredArray) -> BoolArray:
    """[n] which pairs count, of all pairs of some clusters; see PAIR.

    Args:
        pairs: [n] PAIR, each once.
    """
    counts = np.zeros(len(pairs), bool)
    ends = np.stack([pairs["first"], pairs["second"]], axis=1)
    for turn in np.unique(pairs["turn"]).tolist():
        own = np.flatnonzero(pairs["turn"] == turn)
        records, roots = connected(ends[counts])
        if len(records):
            at = np.minimum(np.searchsorted(records, ends[own]), len(records) - 1)
            sides = np.where(records[at] == ends[own], roots[at], ends[own])
            own = own[sides[:, 0] != sides[:, 1]]
        counts[own] = True
    return counts
