"""Which cache is used, and why, in a sentence."""

from __future__ import annotations

import dataclasses

from reader.caching.resources import shown_bytes
from shard_format import UsageError

# A trainer needs memory for much else, and several of them may share a machine.
SHARE = 0.25
# Where a set may lie that is on no local disk.
NETWORK, REMOTE = "on a network file system", "at a URL"


@dataclasses.dataclass(frozen=True)
class CacheChoice:
    """Which cache is used.

    Attributes:
        cache: "off", "memory" or "disk".
        stage: What it holds: records as they are "stored", or with pictures "decoded".
        reason: Why, in a sentence.
    """

    cache: str
    stage: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Situation:
    """What the choice depends on.

    Attributes:
        size: Bytes that the cache would hold.
        stage: Of them, "stored" or "decoded".
        epochs: How often the split is read; None is endless.
        memory: Bytes that are available.
        disk: Bytes that the cache directory may take.
        slow: `NETWORK` or `REMOTE`; None where the set lies on a local disk.
        cache_dir: For the sentence.
    """

    size: int
    stage: str
    epochs: int | None
    memory: int
    disk: int
    slow: str | None
    cache_dir: object


def choose_cache(asked: str, found: Situation) -> CacheChoice:
    """The cache to use: what was asked for, unless that is "auto".

    "auto" never asks for more than a quarter of what is available, and never decodes unless
    `cache_stage` says so. Decoded pictures take about ten times the bytes, and the first batch
    waits until all of them are decoded: minutes that only pay where decoding is what a training
    waits for, which no manifest tells.

    Args:
        asked: One of `reader.options.CACHES`.
        found: What it depends on.

    Raises:
        UsageError: What was asked for does not fit into memory.
    """
    if asked == "memory" and found.size > found.memory:
        raise UsageError(
            f'cache="memory" needs {shown_bytes(found.size)} for this split as it is '
            f"{found.stage}, got {shown_bytes(found.memory)} of memory available. Pass "
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
        return "off", f"{beyond}, and it lies on a local disk"
    where = f", and it lies {found.slow}" if found.slow else f", and fits into {found.cache_dir}"
    if found.size <= SHARE * found.disk or (found.slow == REMOTE and found.stage == "stored"):
        return "disk", f"{beyond}{where}"
    return "off", f"{beyond}, and beyond a quarter of the room in {found.cache_dir}"
