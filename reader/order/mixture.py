"""Which set every position of a mixture is of, as a function of seed and position.

group    so many positions after each other are of one set; worker counts must divide it
block    some thousand groups; every set has as many of them as its weight says, in another
order in every block
"""

from __future__ import annotations

import dataclasses

import numpy as np

from reader.order import numpy_order
from shard_format import mix

MIXTURE_STREAM = 0x4D4958  # "MIX"


@dataclasses.dataclass(frozen=True)
class MixturePlan:
    """Which set every group of a mixture is of.

    Attributes:
        slots: [num_sets] int64 groups of each set in a block.
        group: Positions of a group.
        seed: In [0, 2**63).
    """

    slots: numpy_order.Int64Array
    group: int
    seed: int

    @property
    def num_slots(self) -> int:
        """Groups of a block."""
        return int(self.slots.sum())

    def block(self, number: int) -> numpy_order.Int64Array:
        """[num_slots] int64: the set of every group of a block."""
        key = mix(numpy_order.stream_key(MIXTURE_STREAM, self.seed) ^ np.uint64(number))
        places = numpy_order.permute(np.arange(self.num_slots), self.num_slots, key)
        return np.repeat(np.arange(len(self.slots)), self.slots)[places]

    def before(self, position: int) -> numpy_order.Int64Array:
        """[num_sets] int64: how many positions of each set come before one of the mixture."""
        groups, rest = divmod(position, self.group)
        blocks, inside = divmod(groups, self.num_slots)
        sets = self.block(blocks)
        counts = np.bincount(sets[:inside], minlength=len(self.slots)) + blocks * self.slots
        counts *= self.group
        counts[sets[inside]] += rest
        return counts
