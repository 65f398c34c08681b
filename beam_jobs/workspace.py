"""The few file operations of a job, so that what must be atomic is so in one place.

Workers share a file system (a disk, NFS, a mounted bucket). A file is written under a temporary
name in the build's own folder and renamed, so a reader sees all of it or nothing, and two workers
that do the same work do no harm.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from shard_format import InputError, naming


class Workspace:
    """The folders of one build.

    Attributes:
        out: Where the shard set will be.
        work: Files of this build only; on the file system of `out`, so that renames are atomic.
        units: Staged units, by content: another build may use them too.
    """

    def __init__(self, out: Path, staging: Path | None) -> None:
        self.out = out
        self.work = out / naming.WORK_DIR
        self.units = (staging or self.work) / "units"
        # A folder of this build's own: several builds may share a staging folder, and each one
        # clears up after itself alone.
        owner = hashlib.blake2b(os.fsencode(out.absolute()), digest_size=8).hexdigest()
        self._unfinished_units = (staging or self.work) / f"unfinished-{owner}"
        self._unfinished = self.work / "unfinished"
        self.listing = self.work / "listing.arrow"
        self.unit_table = self.work / "units.arrow"
        self.plan = self.work / "plan"
        self.clusters = self.plan / "clusters.arrow"
        self.settled = self.work / "settled"
        self.shards = self.work / "shards"
        self.progress = self.work / "progress"
        self.error = self.work / "error.json"

    def create(self) -> None:
        """Makes every folder, and forgets what a killed build left half-written."""
        self.work.mkdir(parents=True, exist_ok=True)
        for folder in (self._unfinished, self._unfinished_units):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        for folder in (self.units, self.plan, self.settled, self.shards):
            folder.mkdir(parents=True, exist_ok=True)
        self.error.unlink(missing_ok=True)
        self.progress.unlink(missing_ok=True)

    def temporary(self, folder: Path) -> Path:
        """A new path for a file that will be renamed into the folder, on its file system."""
        place = self._unfinished_units if folder == self.units else self._unfinished
        return place / uuid.uuid4().hex

    def mark(self, stage: str) -> None:
        """Notes that a stage begins now."""
        write_json(self, self.work / f"began-{stage}.json", time.time())

    def marks(self) -> dict[str, float]:
        """When each stage began, in seconds since the epoch."""
        files = self.work.glob("began-*.json")
        return {path.stem.removeprefix("began-"): float(read_json(path) or 0) for path in files}

    def remove(self) -> None:
        """Removes all that is not part of the set; units in a --staging folder stay."""
        shutil.rmtree(self._unfinished_units, ignore_errors=True)
        shutil.rmtree(self.work, ignore_errors=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the build for this process: two builds into one folder would mix their files.

        Raises:
            InputError: Another process builds into the same folder.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        path = self.work / "lock"
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A build that has just ended may have removed the file we opened.
                ours = os.fstat(file.fileno()).st_ino == path.stat().st_ino
            except OSError:
                ours = False
            if not ours:
                raise InputError(
                    f"one build at a time may write to a folder, got another one at work in "
                    f"{self.out}. Wait for it, or choose another --out."
                )
            yield


def publish(temporary: Path, final: Path, *, durable: bool = False) -> None:
    """Gives a finished file its name.

    Args:
        temporary: The file, closed.
        final: Its name from now on; an existing file is replaced.
        durable: Flush the content to the disk before; `flush_folder` does that for the name.
    """
    if durable:
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    os.replace(temporary, final)


def flush_folder(folder: Path) -> None:
    """Has the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(workspace: Workspace, final: Path, value: Any) -> None:
    """Writes a small JSON file atomically."""
    temporary = workspace.temporary(final.parent)
    temporary.write_text(json.dumps(value), encoding="utf-8")
    publish(temporary, final)


def write_table(workspace: Workspace, final: Path, table: pa.Table) -> None:
    """Writes an Arrow file atomically."""
    temporary = workspace.temporary(final.parent)
    with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    publish(temporary, final)


def read_table(path: Path) -> pa.Table:
    """A memory-mapped Arrow file: only the columns that are used are read."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def read_json(path: Path) -> Any | None:
    """The content of a JSON file, or None if there is none or it was cut off."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
