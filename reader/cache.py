"""Where the records of a split are read from: the set itself, a copy on local disk, or memory."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import shutil
from pathlib import Path

import psutil

from shard_format import DamageError, ShardInfo, ShardSetError, SplitInfo, UsageError

_BLOCK_BYTES = 4 << 20  # 4 MiB: hashing releases the GIL, and round trips do not count
# A trainer needs memory for much else, and several of them may share a machine.
_MEMORY_SHARE = 0.25
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
    """Which cache is used ("off", "memory" or "disk"), and why, in a sentence."""

    cache: str
    reason: str


def choose_cache(
    asked: str, split: SplitInfo, epochs: int | None, directory: Path, cache_dir: Path
) -> CacheChoice:
    """The cache to use; what was asked for, unless that is "auto".

    Args:
        asked: One of `reader.options.CACHES`.
        split: The split to be read.
        epochs: How often it is read; None is endless.
        directory: The shard set.
        cache_dir: Where a disk cache would lie.
    """
    if asked != "auto":
        return CacheChoice(asked, f"cache={asked!r} was asked for")
    if epochs == 1:
        return CacheChoice("off", "every record is read once")
    free = available_memory_bytes()
    size = f"the split has {_size(split.bytes)}"
    if split.bytes <= _MEMORY_SHARE * free:
        return CacheChoice(
            "memory", f"{size}, within a quarter of the {_size(free)} of memory available"
        )
    beyond = f"{size}, beyond a quarter of the {_size(free)} of memory available"
    if not on_network(directory):
        return CacheChoice("off", f"{beyond}, and it lies on a local disk")
    if split.bytes <= _MEMORY_SHARE * _disk_free(cache_dir):
        return CacheChoice("disk", f"{beyond}, and it lies on a network file system")
    return CacheChoice("off", f"{beyond}, and beyond a quarter of the free space in {cache_dir}")


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
    """Whether a directory lies on a network file system, as far as the mount table tells."""
    path = directory.resolve()
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    for parent in (path, *path.parents):
        if parent in mounts:
            return mounts[parent].lower().startswith(_NETWORK_FILE_SYSTEMS)
    return False


def default_cache_dir() -> Path:
    """The user's cache directory, by the XDG convention."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "shardmill"


def check_shards(directory: Path, split: SplitInfo) -> list[Path]:
    """The paths of a split's shards, each seen to be there and to have its size.

    It looks at names and sizes only; 'shardmill verify' reads every byte.

    Raises:
        ShardSetError: A shard is missing.
        DamageError: A shard has another size than the manifest says.
    """
    paths = [directory / shard.file for shard in split.shards]
    for path, shard in zip(paths, split.shards, strict=True):
        try:
            found = path.stat().st_size
        except FileNotFoundError as error:
            raise ShardSetError(
                f"every shard in the manifest must be there, got no file {path}. "
                "Copy the whole set, or run 'shardmill verify' to see what is missing."
            ) from error
        if found != shard.bytes:
            raise DamageError(
                f"a shard must have the size in the manifest ({shard.bytes} bytes), got {found} "
                f"bytes in {path}. Copy it again, or build the set again."
            )
    return paths


def fill_disk_cache(directory: Path, split: SplitInfo, target: Path) -> list[Path]:
    """The paths of copies of a split's shards, made where they are not there yet.

    A copy is written to a temporary name, compared with the manifest's SHA-256 and renamed, so a
    file under its final name is whole, whenever anybody was killed. A lock makes processes that
    come together copy once. It also means that a temporary file found under the lock is a dead
    process's, so the name can be a fixed one and nothing is ever left behind.

    Args:
        directory: The shard set.
        split: The split to copy.
        target: The directory of the copies; one per set, named by its root hash.

    Raises:
        DamageError: What was copied does not match the manifest.
        UsageError: The directory cannot be written to, or lacks the space.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        with (target / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            missing = [shard for shard in split.shards if not _is_copied(target, shard)]
            _check_space(target, sum(shard.bytes for shard in missing))
            for shard in missing:
                _copy_shard(directory / shard.file, target / shard.file, shard)
    except OSError as error:
        raise UsageError(
            f"a disk cache needs a directory that can be written to, got {error} in {target}. "
            'Pass another cache_dir, or cache="off".'
        ) from error
    return [target / shard.file for shard in split.shards]


def _is_copied(target: Path, shard: ShardInfo) -> bool:
    path = target / shard.file
    return path.exists() and path.stat().st_size == shard.bytes


def _check_space(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target).free
    if needed > free:
        raise UsageError(
            f"a disk cache needs room for the split ({_size(needed)}), got "
            f'{_size(free)} free in {target}. Pass another cache_dir, or cache="off".'
        )


def _copy_shard(source: Path, final: Path, shard: ShardInfo) -> None:
    temporary = final.with_name(f"{final.name}.part")
    digest = hashlib.sha256()
    with source.open("rb") as read, temporary.open("wb") as write:
        while block := read.read(_BLOCK_BYTES):
            digest.update(block)
            write.write(block)
        # Before the rename: a power cut must not leave a file of the right name and size, empty.
        write.flush()
        os.fsync(write.fileno())
    if digest.hexdigest() != shard.sha256:
        temporary.unlink()
        raise DamageError(
            f"a shard must match the manifest's SHA-256, it differs in {source}. "
            "Run 'shardmill verify' to see which record is damaged."
        )
    temporary.replace(final)


def _disk_free(directory: Path) -> int:
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    return shutil.disk_usage(existing).free


def _size(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
