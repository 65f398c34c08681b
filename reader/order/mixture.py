"""Which set every position of a mixture is of, as a function of seed and position.

group    so many positions after each other are of one set; worker counts must divide it
block    some thousand groups; every set has as many of them as its weight says, in another
order in every block
stage    the blocks from a step on have other weights; the last one of a stage may be cut
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from reader.order import numpy_order
from shard_format import mix

MIXTURE_STREAM = 0x4D4958  # "MIX"


class MixtureStage(NamedTuple):
    """Groups with the same weights.

    Attributes:
        first: Number of the first group.
        slots: [num_sets] int64 groups of each set in a block.
    """

    first: int
    slots: numpy_order.Int64Array


@dataclasses.dataclass(frozen=True)
class MixturePlan:
    """Which set every group of a mixture is of.

    Attributes:
        stages: By their first groups; that of the first stage is 0.
        group: Positions of a group.
        seed: In [0, 2**63).
    """

    stages: tuple[MixtureStage, ...]
    group: int
    seed: int

    def shares(self) -> numpy_order.Int64Array:
        """[num_sets] float64: how much of the first stage is of each set."""
        slots = self.stages[0].slots
        return slots / slots.sum()

    def before(self, position: int) -> numpy_order.Int64Array:
        """[num_sets] int64: how many positions of each set come before one of the mixture."""
        groups, rest = divmod(position, self.group)
        counts = np.zeros_like(self.stages[0].slots)
        for stage, stop in self._spans():
            blocks, inside = divmod(min(groups, stop) - stage.first, int(stage.slots.sum()))
            if blocks >= 0:
                counts += blocks * stage.slots
                counts += np.bincount(self.block(stage, blocks)[:inside], minlength=len(counts))
        counts *= self.group
        counts[next(self._groups(groups))] += rest
        return counts

    def batches(
        self, position: int, batch_size: int, workers: int
    ) -> Iterator[list[tuple[int, int]]]:
        """The sets of each batch from a position on, and how many records of them one worker has.

        Args:
            position: A multiple of the batch size.
            batch_size: Positions of a batch.
            workers: Each has an equal part of every group.
        """
        first, rest = divmod(position, self.group)
        left = self.group - rest
        groups = self._groups(first)
        current = next(groups)
        while True:
            batch, missing = [], batch_size
            while missing:
                if not left:
                    current, left = next(groups), self.group
                taken = min(left, missing)
                batch.append((current, taken // workers))
                left, missing = left - taken, missing - taken
            yield batch

    def block(self, stage: MixtureStage, number: int) -> numpy_order.Int64Array:
        """[num_slots] int64: the set of every group of a block of a stage."""
        # No stage before has a number as large as that of its first group.
        unique = np.uint64(stage.first + number)
        key = mix(numpy_order.stream_key(MIXTURE_STREAM, self.seed) ^ unique)
        size = int(stage.slots.sum())
        places = numpy_order.permute(np.arange(size), size, key)
        return np.repeat(np.arange(len(stage.slots)), stage.slots)[places]

    def _groups(self, first: int) -> Iterator[int]:
        """The set of every group from one on."""
        for stage, stop in self._spans():
            while first < stop:
                number, inside = divmod(first - stage.first, int(stage.slots.sum()))
                own = self.block(stage, number)[inside : inside + stop - first].tolist()
                yield from own
                first += len(own)

    def _spans(self) -> Iterator[tuple[MixtureStage, int]]:
        """The stages, and the group where each ends."""
        ends = (*(stage.first for stage in self.stages[1:]), np.iinfo(np.int64).max)
        return zip(self.stages, ends, strict=True)
