"""From a split and options to payloads: the cache is chosen, then filled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from reader.caching.choosing import NETWORK, REMOTE, CacheChoice, Situation, choose_cache
from reader.caching.decoding import decoded_bytes
from reader.caching.filling import CACHES, Filled, Filling
from reader.caching.places import Place
from reader.caching.resources import (
    available_memory_bytes,
    free_disk_bytes,
    on_network,
)
from reader.caching.serving import KeepingPayloads
from reader.options import ReadOptions
from reader.record_types import OpenSplit


@dataclasses.dataclass(frozen=True)
class CachePlan:
    """What is to be cached of a split.

    Attributes:
        place: The set.
        opened: The split.
        choice: The cache, and why.
        name: Of the split.
    """

    place: Place
    opened: OpenSplit
    choice: CacheChoice
    name: str

    def fill(self, on_bytes: Callable[[int], None]) -> Filled:
        """Fills the cache as far as that comes before the first batch.

        Args:
            on_bytes: Called with the size of every part of the split that was read for it.

        Raises:
            UsageError: The cache has no room, or its directory cannot be written to.
            ShardSetError: A shard is missing, or cannot be reached.
            DamageError: A shard is not what its manifest says.
        """
        fill = CACHES[self.choice.cache, self.choice.stage]
        filled = fill(Filling(self.place, self.opened, self.name, on_bytes))
        payloads = KeepingPayloads(filled.payloads, self.place.lease)
        return dataclasses.replace(filled, payloads=payloads) if self.place.lease else filled


def plan_cache(place: Place, opened: OpenSplit, options: ReadOptions) -> CachePlan:
    """The cache for one split.

    Raises:
        UsageError: What was asked for is more than there is memory.
        DamageError: The index does not tell what it must.
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
        reason = f"{choice.reason}; the pictures are stored as pixels, so none is decoded"
        choice = dataclasses.replace(choice, reason=reason)
    return CachePlan(place, opened, choice, options.split)
