"""The folders of a build, and its small files.

Workers share a file system (a disk, NFS, a mounted bucket). A file appears whole or not at all, so
a reader never sees half of one, and two workers that do the same work do no harm.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from shard_format import InputError, naming, storage
from shard_format.storage import Place

_BEGAN = "began-"  # files that say when a stage began


class Workspace:
    """The folders of one build.

    Attributes:
        out: The shard set.
        work: Files of this build only, on the file system of `out`.
        units: Staged units, by content: another build may use them too.
    """

    def __init__(self, out: Path, staging: Path | None) -> None:
        self.out = out
        self.work = out / naming.WORK_DIR
        self.units = (staging or self.work) / "units"
        # Several builds may share a staging folder; each one deletes only its own leftovers.
        owner = hashlib.blake2b(os.fsencode(out.absolute()), digest_size=8).hexdigest()
        self._unfinished_units = (staging or self.work) / f"unfinished-{owner}"
        self._unfinished = self.work / "unfinished"
        self.listing = self.work / "listing.arrow"
        self.unit_table = self.work / "units.arrow"
        self.plan = self.work / "plan"
        self.clusters = self.plan / "clusters.arrow"
        self.settled = self.work / "settled"
        self.shards = self.work / "shards"
        self.owner = self.work / "run.json"
        self.progress = self.work / "progress"

    def create(self) -> None:
        """Makes every folder and deletes what a killed build left half-written."""
        for folder in (self._unfinished, self._unfinished_units):
            storage.delete_tree(folder)
            storage.make_folder(folder)
        for folder in (self.units, self.plan, self.settled, self.shards):
            storage.make_folder(folder)
        storage.delete(self.progress)

    def write(self, final: Path, *, durable: bool = False) -> AbstractContextManager[BinaryIO]:
        """A file of the build to write; see `storage.create`."""
        return storage.create(final, durable=durable, scratch=self.scratch_of(final))

    def write_arrow(
        self, final: Path, *, durable: bool = False
    ) -> AbstractContextManager[pa.NativeFile]:
        """A file of the build for Arrow to write; see `storage.create_arrow`."""
        return storage.create_arrow(final, durable=durable, scratch=self.scratch_of(final))

    def scratch_of(self, final: Path) -> Path:
        """The folder where a file of the build waits for its name; the next build clears it."""
        return self._unfinished_units if final.parent == self.units else self._unfinished

    def scratch_file(self) -> Path:
        """A new local path, on the disk of the units, for data that does not fit in memory."""
        return self._unfinished_units / uuid.uuid4().hex

    def error(self, run_id: str) -> Path:
        """Where a worker leaves an error for the launcher of its run."""
        return self.work / f"error-{run_id}.json"

    def mark(self, stage: str) -> None:
        """Notes that a stage begins now."""
        write_json(self, self.work / f"{_BEGAN}{stage}.json", time.time())

    def marks(self) -> dict[str, float]:
        """When each stage began, in seconds since the epoch."""
        names = (entry.name for entry in storage.list_folder(self.work))
        return {
            name.removeprefix(_BEGAN).removesuffix(".json"): float(read_json(self.work / name) or 0)
            for name in names
            if name.startswith(_BEGAN)
        }

    def remove(self) -> None:
        """Deletes everything that is not part of the set; units in a --staging folder stay."""
        storage.delete_tree(self._unfinished_units)
        storage.delete_tree(self.work)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other processes from building here: two builds would mix their files.

        Raises:
            InputError: Another process builds into the same folder.
        """
        storage.make_folder(self.work)
        path = self.work / "lock"
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A build that has just ended may have deleted the file that is open here.
                ours = os.fstat(file.fileno()).st_ino == path.stat().st_ino
            except OSError:
                ours = False
            if not ours:
                raise InputError(
                    f"Another build is writing to {self.out}. Wait for it to end, or choose "
                    "another --out."
                )
            yield


def write_json(workspace: Workspace, final: Path, value: Any) -> None:
    """Writes a small JSON file."""
    with workspace.write(final) as file:
        file.write(json.dumps(value).encode())


def write_table(workspace: Workspace, final: Path, table: pa.Table) -> None:
    """Writes an Arrow file."""
    with workspace.write_arrow(final) as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_table(place: Place) -> pa.Table:
    """The table of an Arrow file: of a local one, only the columns that are used are read."""
    return pa.ipc.open_file(storage.open_arrow(place)).read_all()


def read_json(place: Place) -> Any | None:
    """The content of a JSON file, or None if there is none or it was cut off."""
    try:
        return json.loads(storage.read_bytes(place))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
