"""Verification: every byte of a shard set is compared with the manifest.

Every shard is read once and its SHA-256 compared. Where it differs, the frames and the index give
the damage an address: file, byte offset, record id.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from shard_format import naming, storage
from shard_format.errors import DamageError, ShardmillError
from shard_format.index import open_index
from shard_format.machine import usable_cores
from shard_format.manifest import Manifest, ShardInfo, load_manifest
from shard_format.storage import Place
from shard_format.tfrecord import read_records

OnBytes = Callable[[int], None]

_BLOCK_BYTES = 1 << 20  # 1 MiB: hashing releases the GIL, larger blocks are no faster


@dataclasses.dataclass(frozen=True)
class Damage:
    """A damaged file, by its name relative to the set, and its problem."""

    file: str
    problem: str


def verify(
    directory: Place,
    *,
    workers: int | None = None,
    on_bytes: OnBytes = lambda size: None,
) -> tuple[Manifest, list[Damage]]:
    """Checks every file of a set against its manifest.

    Args:
        directory: The shard set.
        workers: Files read in parallel; one per usable core when None.
        on_bytes: Called with the size of every block that was read, from several threads.

    Returns:
        The manifest, and all damage; an empty list means that the set is intact.

    Raises:
        ShardSetError: There is no set in this directory.
        DamageError: The manifest itself is damaged, so nothing can be checked against it.
    """
    manifest = load_manifest(directory)
    checks: list[tuple[str, Callable[[], Iterator[str]]]] = []
    for split, info in manifest.splits.items():
        for number, shard in enumerate(info.shards):
            check = _shard_check(directory, split, number, shard, on_bytes)
            checks.append((shard.file, check))
    for file, expected in manifest.files.items():
        size, digest = expected["bytes"], expected["sha256"]
        checks.append((file, _file_check(directory / file, size, digest, on_bytes)))

    def run(check: tuple[str, Callable[[], Iterator[str]]]) -> list[Damage]:
        file, problems = check
        return [Damage(file, problem) for problem in problems()]

    with ThreadPoolExecutor(workers or math.ceil(usable_cores())) as pool:
        damages = [damage for found in pool.map(run, checks) for damage in found]
    if not damages:
        for split in manifest.splits:
            damages += [
                Damage(naming.index_file(split), p) for p in _index(directory, split, manifest)
            ]
    damages += [Damage(file, "is not part of the set") for file in _strangers(directory, manifest)]
    return manifest, damages


def file_sha256(place: Place, on_bytes: OnBytes = lambda size: None) -> str:
    """SHA-256 of a file's content, in hex; `on_bytes` is called with the size of every block."""
    digest = hashlib.sha256()
    with storage.open_input(place) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            on_bytes(len(block))
    return digest.hexdigest()


def _problem(place: Place, size: int, digest: str, on_bytes: OnBytes) -> str | None:
    try:
        found = storage.stat(place)
        if found is None:
            path = storage.local_path(place)
            return "is not a regular file" if path is not None and path.exists() else "is missing"
        if found.size != size:
            return f"must have {size} bytes, has {found.size}"
        return None if file_sha256(place, on_bytes) == digest else "does not match its SHA-256"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _file_check(
    place: Place, size: int, digest: str, on_bytes: OnBytes
) -> Callable[[], Iterator[str]]:
    def check() -> Iterator[str]:
        problem = _problem(place, size, digest, on_bytes)
        if problem:
            yield problem

    return check


def _shard_check(
    directory: Place, split: str, number: int, shard: ShardInfo, on_bytes: OnBytes
) -> Callable[[], Iterator[str]]:
    def check() -> Iterator[str]:
        place = directory / shard.file
        problem = _problem(place, shard.bytes, shard.sha256, on_bytes)
        if problem is None:
            return
        if storage.stat(place) is None:
            yield problem
            return
        yield f"{problem}; {_locate(directory, split, number, place)}"

    return check


def _locate(directory: Place, split: str, number: int, place: Place) -> str:
    """Which record of a damaged shard is damaged, as far as frames and index say."""
    records = 0
    try:
        for _ in read_records(place):
            records += 1
    except DamageError as error:
        rows = _rows_of_shard(directory, split, number)
        if rows is None or records >= rows.num_rows:
            return str(error)
        return f"record {rows['record_id'][records].as_py()!r}: {error}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return f"all {records} records match their checksums: this is another file's content"


def _rows_of_shard(directory: Place, split: str, number: int) -> pa.Table | None:
    try:
        index = open_index(directory / naming.index_file(split))
    except ShardmillError:
        return None
    return index.filter(pc.equal(index["shard"], number))


def _index(directory: Place, split: str, manifest: Manifest) -> Iterator[str]:
    """Yields where an index, whose bytes are right, contradicts the manifest."""
    index = open_index(directory / naming.index_file(split))
    counts = pc.value_counts(index["shard"])
    found = {item["values"]: item["counts"] for item in counts.to_pylist()}
    for number, shard in enumerate(manifest.splits[split].shards):
        if found.get(number, 0) != shard.records:
            yield f"must have {shard.records} rows for {shard.file}, has {found.get(number, 0)}"


def _strangers(directory: Place, manifest: Manifest) -> Iterator[str]:
    """Yields shards in the folder that the manifest does not name: a reader by glob sees them."""
    known = {shard.file for split in manifest.splits.values() for shard in split.shards}
    for name in sorted(entry.name for entry in storage.list_folder(directory)):
        if naming.parse_shard_file(name) and name not in known:
            yield name
