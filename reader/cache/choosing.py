"""Which cache a stream uses: by the size of the split, and what this machine has free."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from pathlib import Path

import psutil

from shard_format import UsageError

# A trainer needs memory for much else, and several of them may share a machine.
SHARE = 0.25
# The places of a set that is not on a local disk.
NETWORK, REMOTE = "on a network file system", "at a URL"
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "fuse.", "lustre", "gpfs", "ceph", "9p", "beegfs")
_CGROUP_FILES = (  # limit and use of version 2, then of version 1, in bytes
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


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
        stage: What these bytes are: "stored" records or "decoded" images.
        epochs: How often the split is read; None is endless.
        memory: Bytes of memory that are available.
        disk: Bytes that the cache directory may take.
        slow: `NETWORK` or `REMOTE`; None where the set is on a local disk.
        cache_dir: Directory of a cache on disk, for the sentence.
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


def available_memory_bytes() -> int:
    """Memory that this process may still take: the machine's, or its container's if less."""
    available = int(psutil.virtual_memory().available)
    for limit_file, use_file in _CGROUP_FILES:
        try:
            limit = int(Path(limit_file).read_text())  # "max" where there is no limit
            available = min(available, max(0, limit - int(Path(use_file).read_text())))
        except (OSError, ValueError):
            continue
    return available


def on_network(directory: Path) -> bool:
    """Whether a directory is on a network file system, by the mount table."""
    path = directory.resolve()
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    for parent in (path, *path.parents):
        if parent in mounts:
            return mounts[parent].lower().startswith(_NETWORK_FILE_SYSTEMS)
    return False


def default_cache_dir() -> Path:
    """The user's cache directory, by the XDG convention."""
    base = os.environ.get("XDG_CACHE_HOME")
    if not base:
        try:
            base = str(Path.home() / ".cache")
        except RuntimeError:  # a container runs as a number that has no name, and without $HOME
            base = tempfile.gettempdir()
    return Path(base) / "shardmill"


def free_disk_bytes(directory: Path) -> int:
    """What may still be written to a directory, be it there or yet to be made."""
    # Not path.exists(), which raises where a parent may not be looked into: the home of another
    # user, say, and not every stream needs the directory. os.path.exists() takes it as not there.
    places = (directory, *directory.parents)
    existing = next(path for path in places if os.path.exists(path))
    return shutil.disk_usage(existing).free


def shown_bytes(size: int) -> str:
    """A size for messages: 1.5 GB."""
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
