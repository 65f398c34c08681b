"""From a split and options to a record reader: the cache is chosen, then filled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from reader.cache.decoding import decoded_bytes
from reader.cache.filling import CACHES, Filled, Filling
from reader.cache.locations import DatasetLocation
from reader.cache.readers import LeasedRecords
from reader.cache.resources import (
    available_memory_bytes,
    free_disk_bytes,
    on_network,
    shown_bytes,
)
from reader.damage import SkippedRecords
from reader.options import ReadOptions
from reader.record_types import OpenSplit
from shard_format import UsageError

# A trainer needs memory for much else, and several of them may share a machine.
SHARE = 0.25
# The places of a set that is not on a local disk.
NETWORK, REMOTE = "on a network file system", "at a URL"


@dataclasses.dataclass(frozen=True)
class CacheChoice:
    """The cache to use.

    Attributes:
        cache: "off", "memory" or "disk".
        stage: What it holds: records as they are "stored", or with images "decoded".
        reason: Why, in a sentence.
    """

    cache: str
    stage: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Situation:
    """The input of the choice.

    Attributes:
        size: Bytes that the cache would hold.
        stage: Of them, "stored" or "decoded".
        epochs: How often the split is read; None is endless.
        memory: Bytes that are available.
        disk: Bytes that the cache directory may take.
        slow: `NETWORK` or `REMOTE`; None where the set is on a local disk.
        cache_dir: For the sentence.
    """

    size: int
    stage: str
    epochs: int | None
    memory: int
    disk: int
    slow: str | None
    cache_dir: object


@dataclasses.dataclass(frozen=True)
class CachePlan:
    """How a split is cached.

    Attributes:
        place: The set.
        opened: The split.
        choice: The cache, and why.
        name: Of the split.
        skips: Whether damaged records are skipped.
    """

    place: DatasetLocation
    opened: OpenSplit
    choice: CacheChoice
    name: str
    skips: bool

    def fill(self, on_bytes: Callable[[int], None], skipped: SkippedRecords) -> Filled:
        """Fills the cache as far as that comes before the first batch.

        Args:
            on_bytes: Called with the size of every part of the split that was read for it.
            skipped: Counts the records that are skipped, now and while the split is read.

        Raises:
            UsageError: The cache has no room, or its directory cannot be written to.
            ShardSetError: A shard is missing, or cannot be reached.
            DamageError: A shard is not what its manifest says.
        """
        fill = CACHES[self.choice.cache, self.choice.stage]
        filling = Filling(self.place, self.opened, self.name, on_bytes, self.skips, skipped)
        filled = fill(filling)
        record_reader = LeasedRecords(filled.record_reader, self.place.lease)
        return (
            dataclasses.replace(filled, record_reader=record_reader) if self.place.lease else filled
        )


def plan_cache(place: DatasetLocation, opened: OpenSplit, options: ReadOptions) -> CachePlan:
    """The cache for one split.

    Raises:
        UsageError: What was asked for is more than there is memory.
        DamageError: The index lacks a column that it must have.
    """
    split = opened.manifest.splits[options.split]
    stage = options.cache_stage
    if all(feature.encoding in ("", "raw") for feature in opened.schema.features):
        stage = "stored"  # as pixels
    slow = REMOTE if place.is_remote else NETWORK if on_network(place.root) else None
    disk = free_disk_bytes(place.cache_dir)
    found = Situation(
        size=decoded_bytes(opened, split) if stage == "decoded" else split.bytes,
        stage=stage,
        epochs=options.epochs,
        memory=available_memory_bytes(),
        disk=disk if place.cache_limit is None else min(disk, place.cache_limit),
        slow=slow,
        cache_dir=place.cache_dir,
    )
    choice = choose_cache(options.cache, found)
    if stage != options.cache_stage:
        reason = f"{choice.reason}; the images are stored as pixels, so none is decoded"
        choice = dataclasses.replace(choice, reason=reason)
    return CachePlan(place, opened, choice, options.split, options.on_corrupt == "skip")


def choose_cache(asked: str, found: Situation) -> CacheChoice:
    """The cache to use: what was asked for, unless that is "auto".

    "auto" never asks for more than a quarter of what is available, and never decodes unless
    `cache_stage` says so. Decoded images take about ten times the bytes, and the first batch
    waits until all of them are decoded: minutes that only pay where decoding is what a training
    waits for, which no manifest says.

    Args:
        asked: One of `reader.options.CACHES`.
        found: The situation.

    Raises:
        UsageError: What was asked for does not fit into memory.
    """
    if asked == "memory" and found.size > found.memory:
        raise UsageError(
            f'cache="memory" needs {shown_bytes(found.size)} for this split ({found.stage}), but '
            f"{shown_bytes(found.memory)} of memory are available. Pass "
            'cache="disk" or cache="off".'
        )
    if asked != "auto":
        return CacheChoice(asked, found.stage, f"cache={asked!r} was asked for")
    name, reason = _automatic(found)
    return CacheChoice(name, "stored" if name == "off" else found.stage, reason)


def _automatic(found: Situation) -> tuple[str, str]:
    if found.epochs == 1:
        return "off", "every record is read once"
    size = f"the split has {shown_bytes(found.size)}"
    if found.stage == "decoded":
        size = f"the split has {shown_bytes(found.size)} when it is decoded"
    memory = f"a quarter of the {shown_bytes(found.memory)} of memory available"
    if found.size <= SHARE * found.memory:
        return "memory", f"{size}, within {memory}"
    beyond = f"{size}, beyond {memory}"
    if found.stage == "stored" and found.slow is None:
        return "off", f"{beyond}, and it is on a local disk"
    where = f", and it is {found.slow}" if found.slow else f", and fits into {found.cache_dir}"
    if found.size <= SHARE * found.disk or (found.slow == REMOTE and found.stage == "stored"):
        return "disk", f"{beyond}{where}"
    return "off", f"{beyond}, and beyond a quarter of the room in {found.cache_dir}"
