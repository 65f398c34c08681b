"""Records drawn by class: how often a class comes is said, not how many records it has.

A draw is a function of its position in the epoch, as the order is:

    slots     so many positions after each other are a block; every class has as many of its slots
              as its weight says, in an order of their own in every block
    rank      how many records of its class came before it in the epoch; the slots of its block
              are counted for that, of all workers
    record    the records of the class in a permuted order; when all have come, in another one

So in an epoch the records of a class come equally often, but for one, wherever it ends; and the
share of every class is what its weight says in every whole block. An epoch has as many draws as the
split has records.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from foundation.options import check_choice
from reader.order import numpy_order
from shard_format import DamageError, Feature, ShardSetError, UsageError, mix

SLOT_STREAM = 0x534C4F54  # "SLOT"
DRAW_STREAM = 0x44524157  # "DRAW"
# Shares are rounded to multiples of one slot, and are exact in every block of that many draws, or
# of fewer where these are multiples of a number.
SLOTS = 4096


class ClassSampler:
    """Which record is drawn at a position.

    It holds the numbers of all records by class, 8 bytes a record.

    Args:
        labels: [records] int64, the class of each; those of classes without a weight are not drawn.
        slots: [num_classes] int64, slots of each class in a block; 0 where it has no records.
        seed: In [0, 2**63).

    Attributes:
        members: [records] int64, the record numbers by class.
        sizes: [num_classes] int64, the records of each class.
        starts: [num_classes] int64, where those of each class begin in `members`.
        slots: [num_classes] int64, as given.
        class_of: [num_slots] int64, the class of each slot of a block.
        rank_of: [num_slots] int64, which of the slots of its class each is.
        seed: As given.
    """

    def __init__(
        self, labels: numpy_order.Int64Array, slots: numpy_order.Int64Array, seed: int
    ) -> None:
        self.seed, self.slots = seed, slots
        self.sizes = np.bincount(labels, minlength=len(slots))
        self.members = np.argsort(labels, kind="stable")
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.class_of = np.repeat(np.arange(len(slots)), slots)
        self.rank_of = np.arange(self.num_slots) - np.repeat(np.cumsum(slots) - slots, slots)

    @property
    def num_slots(self) -> int:
        """Slots of a block."""
        return int(self.slots.sum())

    @property
    def largest(self) -> int:
        """Records of the largest class."""
        return int(self.sizes.max())

    def numbers(self, positions: numpy_order.Int64Array, epoch: int) -> numpy_order.Int64Array:
        """[n] int64: the record drawn at each position [n] int64 of an epoch."""
        if not len(positions):
            return positions
        first, last = positions.min() // self.num_slots, positions.max() // self.num_slots
        whole = np.arange(first * self.num_slots, (last + 1) * self.num_slots)
        blocks = whole // self.num_slots
        key = mix(numpy_order.epoch_key(SLOT_STREAM, self.seed, epoch) ^ blocks.astype(np.uint64))
        slots = numpy_order.permute(whole % self.num_slots, self.num_slots, key)
        classes = self.class_of[slots]
        ranks = np.empty_like(whole)
        by_class = np.argsort((blocks - first) * len(self.slots) + classes, kind="stable")
        ranks[by_class] = np.tile(self.rank_of, last - first + 1)
        ranks += blocks * self.slots[classes]
        places = positions - first * self.num_slots
        classes, ranks = classes[places], ranks[places]
        sizes = self.sizes[classes]
        key = numpy_order.epoch_key(DRAW_STREAM, self.seed, epoch) ^ classes.astype(np.uint64)
        key = mix(mix(key) ^ (ranks // sizes).astype(np.uint64))
        # The rounds are those of the largest class: more than a smaller one needs do no harm.
        rounds = numpy_order.num_rounds(self.largest)
        drawn = numpy_order.permute(ranks % sizes, sizes, key, rounds)
        return self.members[self.starts[classes] + drawn]


def make_sampler(
    sample: str | Mapping[str, float],
    label: Feature | None,
    column: pa.ChunkedArray,
    seed: int,
    where: Path,
) -> ClassSampler:
    """The sampler of a split.

    Args:
        sample: "balanced" for all classes alike, or the weight of each class by its name, at least
            0; a class that is not named has none.
        label: The feature with the class.
        column: Column of the index with the classes of the records.
        seed: In [0, 2**63).
        where: The index file, for messages.

    Raises:
        UsageError: The set has not one label a record, or a weight is wrong.
        ShardSetError: A class that is to be drawn has no records.
        DamageError: The index has labels that are no classes.
    """
    if label is None or label.shape:
        counted = "none" if label is None else "any number of them"
        raise UsageError(
            f"Records have {counted} in {where}, but sample draws by the one label of each. Leave "
            "sample out."
        )
    labels = np.asarray(column.to_numpy(), np.int64)
    if labels.min() < 0 or labels.max() >= len(label.class_names):
        raise DamageError(
            f"The index has labels {labels.min()} to {labels.max()}, outside of the classes "
            f"[0, {len(label.class_names)}) of the set, in {where}. Run 'shardmill verify'."
        )
    sizes = np.bincount(labels, minlength=len(label.class_names))
    if isinstance(sample, str):
        return ClassSampler(labels, (sizes > 0).astype(np.int64), seed)
    weights = _weights(sample, label.class_names, where)
    empty = [name for name, n in zip(label.class_names, sizes, strict=True) if not n]
    wrong = [name for name in empty if sample.get(name, 0)]
    if wrong:
        raise ShardSetError(
            f"Class {wrong[0]!r} in sample has no records in {where}. Leave it out of sample, or "
            "give it the weight 0."
        )
    slots = shares(weights, SLOTS)
    return ClassSampler(labels, slots // np.gcd.reduce(slots), seed)  # the shortest of such blocks


def shares(weights: np.ndarray, slots: int) -> numpy_order.Int64Array:
    """[n] int64: so many slots divided by weight, by the method of the largest remainders.

    A weight above 0 has at least one slot.
    """
    exact = weights / weights.sum() * slots
    whole = np.maximum(np.floor(exact), weights > 0).astype(np.int64)
    rest = np.argsort(whole - exact, kind="stable")[: max(0, slots - int(whole.sum()))]
    whole[rest] += 1
    return whole


def _weights(sample: Mapping[str, float], names: tuple[str, ...], where: Path) -> np.ndarray:
    """[num_classes] float64 of every class."""
    for name, weight in sample.items():
        check_choice("class in sample", name, names, where)
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not weight >= 0:
            raise UsageError(
                f"The weight of {name!r} in sample is {weight!r} for {where}. Pass a number of at "
                "least 0."
            )
    weights = np.array([float(sample.get(name, 0.0)) for name in names])
    if not 0 < weights.sum() < np.inf:
        raise UsageError(
            f"The weights in sample sum to {weights.sum()} for {where}. Give at least one class a "
            "finite weight above 0."
        )
    return weights
