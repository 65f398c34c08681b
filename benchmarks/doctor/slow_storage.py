"""A disk that is really slow: reads limited by the kernel, and an evicted page cache.

Needs Linux, root, and control groups of version 1 (blkio) or 2 (io).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_NAME = "shardmill-benchmark"
_V1, _V2 = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
_FORGET_SECONDS = 0.05


def available() -> bool:
    """Whether this machine can limit its reading rate."""
    v1 = (_V1 / "blkio.throttle.read_bps_device").exists()
    v2 = "io" in _words(_V2 / "cgroup.subtree_control")
    return os.geteuid() == 0 and (v1 or v2)


@contextlib.contextmanager
def limited(path: Path, bytes_per_second: int) -> Iterator[Path]:
    """A control group whose processes read no faster from the disk of a path.

    Yields the file to which a process writes its id to join the group. Meanwhile, files below the
    path are evicted from the page cache repeatedly, as by other programs on a machine that is short
    of memory.
    """
    status = path.stat().st_dev
    device = f"{os.major(status)}:{os.minor(status)}"
    if (_V1 / "blkio.throttle.read_bps_device").exists():
        group = _V1 / _NAME
        group.mkdir(exist_ok=True)
        (group / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_per_second}")
    else:
        group = _V2 / _NAME
        group.mkdir(exist_ok=True)
        (group / "io.max").write_text(f"{device} rbps={bytes_per_second}")
    ended = threading.Event()
    forgetting = threading.Thread(target=_forget, args=(path, ended))
    forgetting.start()
    try:
        yield group / "cgroup.procs"
    finally:
        ended.set()
        forgetting.join()
        group.rmdir()


def _forget(path: Path, ended: threading.Event) -> None:
    files = [file for file in path.rglob("*.tfrecord-*") if file.is_file()]
    while not ended.wait(_FORGET_SECONDS):
        for file in files:
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
