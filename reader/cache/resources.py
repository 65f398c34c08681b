"""Free memory and disk space of this machine, and the file system of a directory."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "fuse.", "lustre", "gpfs", "ceph", "9p", "beegfs")
_CGROUP_FILES = (  # limit and use of version 2, then of version 1, in bytes
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


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
