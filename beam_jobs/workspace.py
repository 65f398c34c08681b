"""The folders of a build, and its small files.

Workers share a file system or an object store. A file appears whole or not at all, so a reader
never sees half of one, and two workers that do the same work do no harm. What does not fit in
memory waits on the worker's own disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from beam_jobs.columns import Columns
from foundation import storage
from foundation.processes.locks import is_same_file, try_lock
from foundation.storage import Place
from foundation.storage.lease import Lease
from shard_format import DamageError, InputError, file_sha256, naming, open_index
from shard_format.set_paths import check_no_links

_COPY_BYTES = 4 << 20  # 4 MiB
_HELD_BYTES = 32 << 20  # 32 MiB: a file up to this size is read at once
_BEGAN = "began-"  # files that say when a stage began


class Workspace:
    """The folders of one build.

    Attributes:
        out: The shard set.
        work: Files of this build only, on the file system of `out`.
        listing: Items of the corpus, or of its first piece, see `listing_of`.
        pieces: What was found out about the pieces of a large corpus.
        others: Corpora that the build is compared with, as sets.
        units: Staged units, by content: another build may use them too.
        runs: Merged runs of this build only, where the units are.
        this_machine: `work` if it is local, else a folder for what the processes of one machine
            share.
    """

    def __init__(self, out: Place, staging: Place | None) -> None:
        self.out = out
        self.work = out / naming.WORK_DIR
        self.units = (staging or self.work) / "units"
        # Several builds may share a staging folder; each one deletes only its own leftovers.
        name = os.fsencode(storage.absolute(str(out)))
        owner = hashlib.blake2b(name, digest_size=8).hexdigest()
        self.runs = (staging or self.work) / f"runs-{owner}"
        # Object stores need no other name to write under; then these are on the worker's disk.
        system = Path(tempfile.gettempdir(), f"shardmill-{owner}")
        units = storage.local_path(staging or self.work)
        work = storage.local_path(self.work)
        self._unfinished_units = (units or system) / f"unfinished-{owner}"
        self._unfinished = (work or system) / "unfinished"
        self._system = system
        self.this_machine = work or system
        self.listing = self.work / "listing.arrow"
        self.pieces = self.work / "pieces"
        self.others = self.work / "others"
        self.unit_table = self.work / "units.arrow"
        self.plan = self.work / "plan"
        self.clusters = self.plan / "clusters.arrow"
        self.shared = self.work / "shared"
        self.shards = self.work / "shards"
        self.owner = self.work / "run.json"
        self.progress = self.work / "progress"
        self._whole: set[tuple[Place, str]] = set()  # files that were compared, see `check_file`
        self._lease: Lease | None = None

    def listing_of(self, piece: int) -> Place:
        """The listing of a piece of the corpus; the first piece is all of it, mostly."""
        return self.listing if piece == 0 else self.work / f"listing-{piece:05d}.arrow"

    def create(self) -> None:
        """Makes every folder and deletes what a killed build left half-written."""
        for folder in (self._unfinished, self._unfinished_units):
            storage.delete_tree(folder)
            storage.make_folder(folder)
        for place in (self.units, self.plan, self.shared, self.shards):
            storage.make_folder(place)
        if storage.local_path(self.progress) is not None:
            storage.delete(self.progress)
        else:  # a folder, which HDFS does not delete as a file
            storage.delete_tree(self.progress)

    def write(self, final: Place, *, durable: bool = False) -> AbstractContextManager[BinaryIO]:
        """A file of the build to write; see `storage.create`."""
        return storage.create(final, durable=durable, scratch=self.scratch_of(final))

    def write_arrow(
        self, final: Place, *, durable: bool = False
    ) -> AbstractContextManager[pa.NativeFile]:
        """A file of the build for Arrow to write; see `storage.create_arrow`."""
        return storage.create_arrow(final, durable=durable, scratch=self.scratch_of(final))

    def scratch_of(self, final: Place) -> Path:
        """The folder where a file of the build waits for its name; the next build clears it."""
        staged = final.parent in (self.units, self.runs)
        return self._on_this_machine(self._unfinished_units if staged else self._unfinished)

    def scratch_file(self) -> Path:
        """A new local path for data that does not fit in memory, on the disk of local units."""
        return self._on_this_machine(self._unfinished_units) / uuid.uuid4().hex

    def _on_this_machine(self, folder: Path) -> Path:
        """A folder for temporary files; `create` may have made it on another machine."""
        if folder.parent == self._system:
            storage.make_folder(folder)
        return folder

    def drafts(self, files: Mapping[str, Place]) -> dict[str, Place]:
        """Where to write some files of a build, by any name; see `publish`."""
        return {
            name: final if storage.local_path(final) is not None else self.scratch_file()
            for name, final in files.items()
        }

    def publish(self, drafts: Mapping[Place, Place]) -> None:
        """Sends `drafts`, once they are whole, to their places in an object store at once."""
        remote = [(draft, final) for draft, final in drafts.items() if draft != final]
        if not remote:
            return
        with ThreadPoolExecutor(len(remote)) as pool:
            for _ in pool.map(lambda pair: self._send(*pair), remote):
                pass

    def _send(self, draft: Place, final: Place) -> None:
        with self.write(final) as file, storage.open_input(draft) as written:
            shutil.copyfileobj(written, file, _COPY_BYTES)
        storage.delete(draft)

    def plan_file(self, name: str) -> Path:
        """A file of planning that is mapped into memory; see `share_plan_file`."""
        path = storage.local_path(self.plan / name)
        if path is not None:
            return path
        storage.make_folder(self.this_machine)
        return self.this_machine / name

    def share_plan_file(self, name: str) -> None:
        """Gives a `plan_file`, once it is whole, to the workers of later stages."""
        self.publish({self.plan_file(name): self.plan / name})

    @contextlib.contextmanager
    def local_copy(self, place: Place) -> Iterator[Path]:
        """A file of the build to map into memory: itself if it is local, else a copy."""
        path = storage.local_path(place)
        if path is not None:
            yield path
            return
        path = self.scratch_file()
        try:
            with storage.open_input(place) as file, path.open("wb") as copy:
                shutil.copyfileobj(file, copy, _COPY_BYTES)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def check_file(self, place: Place, sha256: str) -> None:
        """Compares a file of the build with its checksum, once for each object of this class.

        It is read for that, not mapped: what Arrow makes of damaged bytes may end the process.

        Args:
            place: The file.
            sha256: Checksum of its content; "" if it is not known.

        Raises:
            DamageError: It is not as it was written.
        """
        if sha256 and (place, sha256) not in self._whole:
            _compare(place, file_sha256(place), sha256)
            self._whole.add((place, sha256))

    def compare_again(self) -> None:
        """Forgets which files were compared: disks lose bits between two steps, too."""
        self._whole.clear()

    def read_checked(self, place: Place, sha256: str) -> pa.Table:
        """The table of an Arrow file of the build, see `check_file` and `read_table`."""
        if storage.local_path(place) is not None:
            self.check_file(place, sha256)
            return read_table(place)
        data = storage.read_bytes(place)  # once, since it is a request
        if sha256:
            _compare(place, hashlib.sha256(data).hexdigest(), sha256)
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()

    def error(self, run_id: str) -> Place:
        """Where a worker leaves an error for the launcher of its run."""
        return self.work / f"error-{run_id}.json"

    def mark(self, stage: str) -> None:
        """Notes that a stage begins now."""
        write_marker(self, self.work / f"{_BEGAN}{stage}.json", time.time())

    def marks(self) -> dict[str, float]:
        """When each stage began, in seconds since the epoch."""
        names = (entry.name for entry in storage.list_folder(self.work))
        return {
            name.removeprefix(_BEGAN).removesuffix(".json"): float(
                read_marker(self.work / name) or 0
            )
            for name in names
            if name.startswith(_BEGAN)
        }

    def remove(self) -> None:
        """Deletes everything that is not part of the set; units in a --staging folder stay.

        Nothing, if another build took the output over: it works in the same folders.
        """
        if self._lease is not None and self._lease.is_lost():
            return
        storage.delete_tree(self._unfinished_units)
        storage.delete_tree(self.runs)
        storage.delete_tree(self.work)
        storage.delete_tree(self._system)

    @contextlib.contextmanager
    def lock(self, on_note: Callable[[str], None] = lambda note: None) -> Iterator[None]:
        """Keeps other processes from building here: two builds would mix their files.

        Args:
            on_note: See Lease.

        Raises:
            InputError: Another process builds into the same folder, or a part of it is a symbolic
                link.
        """
        check_no_links(self.out)
        storage.make_folder(self.work)
        path = storage.local_path(self.work / "lock")
        if path is None:
            leases = self.work / "leases"
            storage.make_folder(leases)
            self._lease = Lease(leases, self.out, on_note)
            with self._lease.held():
                yield
            return
        with path.open("w") as file:
            # A build that has just ended may have deleted the file that is open here.
            if not (try_lock(file) and is_same_file(file, path)):
                raise InputError(
                    f"Another build is writing to {self.out}. Wait for it to end, or choose "
                    "another --out."
                )
            yield


def write_json(workspace: Workspace, final: Place, value: Any) -> None:
    """Writes a small JSON file."""
    with workspace.write(final) as file:
        file.write(json.dumps(value).encode())


def write_marker(workspace: Workspace, final: Place, value: Any) -> None:
    """Writes a small JSON file with a checksum, which a later run or another process relies on."""
    write_json(workspace, final, {"sha256": _json_sha256(value), "value": value})


def read_marker(place: Place) -> Any | None:
    """The value that `write_marker` wrote; None if there is no file, or it is damaged."""
    content = read_json(place)
    if not isinstance(content, dict) or "value" not in content:
        return None
    return content["value"] if content.get("sha256") == _json_sha256(content["value"]) else None


def read_planned_marker(place: Place) -> Any:
    """The value of a marker that an earlier step of this build has written.

    Raises:
        InputError: It was damaged since.
        FileNotFoundError: The output was removed.
    """
    value = read_marker(place)
    if value is None:
        storage.read_bytes(place)  # raises where there is none
        raise InputError(
            f"The plan {place} was damaged during the build. Run the same command again."
        )
    return value


def _compare(place: Place, actual: str, sha256: str) -> None:
    if actual != sha256:
        raise DamageError(f"{place} is not as it was written")


def _json_sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def write_table(workspace: Workspace, final: Place, table: pa.Table) -> None:
    """Writes an Arrow file."""
    with workspace.write_arrow(final) as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_table(place: Place) -> pa.Table:
    """The table of an Arrow file: of a local one, only the columns that are used are read."""
    if storage.local_path(place) is None:  # in one request, mostly
        return pa.ipc.open_file(pa.BufferReader(storage.read_bytes(place))).read_all()
    return pa.ipc.open_file(storage.open_arrow(place)).read_all()


def schema_in(place: Place) -> pa.Schema:
    """The columns of an Arrow file."""
    with storage.open_arrow(place) as source:
        return pa.ipc.open_file(source).schema


def read_batches(place: Place, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows of an Arrow file, one batch at a time, and only that is in memory.

    Args:
        place: The file.
        columns: Which columns to read; None for all.
    """
    with _open_batches(place) as source:
        reader = pa.ipc.open_file(source)
        if columns is not None:
            included = [reader.schema.get_field_index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=included)
            reader = pa.ipc.open_file(source, options=options)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            if len(batch):
                yield pa.Table.from_batches([batch])


def _open_batches(place: Place) -> pa.NativeFile:
    """A file whose batches are read once; a small one of an object store in one request."""
    if storage.local_path(place) is not None:
        # Not mapped: pages that were read would stay as long as the mapping.
        return storage.open_arrow(place, mapped=False)
    file = storage.open_input(place)
    data = file.read(_HELD_BYTES)
    if len(data) == _HELD_BYTES:
        return pa.PythonFile(file, "r")
    file.close()
    return pa.BufferReader(data)


def columns_of(parts: Sequence[Place]) -> Columns:
    """The columns of an index; of local files not mapped, since what was read would stay.

    Args:
        parts: The files of the index.
    """
    if storage.local_path(parts[0]) is not None:
        return lambda names: chain.from_iterable(read_batches(part, names) for part in parts)
    if len(parts) == 1:  # it is small, and there are several requests for its columns
        table = open_index(parts[0])
        return lambda names: [table.select(names)]
    return lambda names: (open_index(part).select(names) for part in parts)


def read_json(place: Place) -> Any | None:
    """The content of a JSON file, or None if there is none or it was cut off."""
    try:
        return json.loads(storage.read_bytes(place))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
