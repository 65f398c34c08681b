"""fingerprints/items.arrow: hashes of the files that a build has read, in one file or in parts.

A long list is in parts, by ranges of the hash. Where many workers list, the one that cuts a piece
into units sends its hashes to the parts, so that no process writes the whole list.
"""

from __future__ import annotations

import contextlib
import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray, uint64
from beam_jobs.staging.exchange import Exchange
from beam_jobs.staging.reordering import Partitions
from beam_jobs.staging.units import NOT_READ, UnitSummary, listed_pieces
from beam_jobs.workspace import (
    Workspace,
    read_batches,
    read_planned_marker,
    read_table,
    write_marker,
)
from foundation import storage
from foundation.storage import Place
from shard_format import Manifest, file_info, naming
from shard_format.fingerprint_files import item_parts, part_file, parts_at
from shard_format.keys import UInt64Array
from shard_format.naming import below

_SCHEMA = pa.schema([pa.field("item", pa.uint64(), nullable=False)])
_BATCH_ROWS = 1 << 16  # that are in memory at a time
_MOST_PARTITIONS = 256
_HASHES = np.dtype([("item", np.uint64)])
_HASH_BITS = 32  # leading bits of a hash, which say in which part it is


class ItemHashWriter:
    """Takes the hashes of a listing one by one, and writes them in batches.

    Args:
        writer: Writer of an Arrow file with one column.

    Attributes:
        sums: Sum of all hashes, and of their squares, modulo 2**64: they say which items there are,
            whatever their order.
    """

    def __init__(self, writer: pa.RecordBatchWriter) -> None:
        self._writer = writer
        self.sums = np.zeros(2, np.uint64)
        self._held = array("Q")

    def add(self, item: int) -> None:
        """Takes one hash."""
        self._held.append(item)
        if len(self._held) == _BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Writes what is held."""
        if self._held:
            hashes = np.array(self._held, np.uint64)
            self.sums += np.array([hashes.sum(), (hashes * hashes).sum()], np.uint64)
            self._writer.write_batch(_batch(hashes))
            self._held = array("Q")


@contextlib.contextmanager
def item_hash_writer(workspace: Workspace, piece: int = 0) -> Iterator[ItemHashWriter]:
    """Keeps the hashes of the listing of a piece on disk until the build commits."""
    with _writer(workspace, _listed(workspace, piece)) as writer:
        hashes = ItemHashWriter(writer)
        yield hashes
        hashes.flush()


def _listed(workspace: Workspace, piece: int) -> Place:
    return workspace.work / (f"items-{piece:05d}.arrow" if piece else "items.arrow")


def _all_listed(workspace: Workspace) -> list[Place]:
    return [_listed(workspace, piece) for piece in listed_pieces(workspace)]


def listed_hashes(workspace: Workspace) -> UInt64Array:
    """The items of a listing, in its order."""
    return np.concatenate(list(map(hashes_in, _all_listed(workspace))))


def write_items(workspace: Workspace, final: Place, hashes: UInt64Array) -> None:
    """Writes a list of some items."""
    with _writer(workspace, final) as writer:
        writer.write_batch(_batch(np.unique(hashes)))


class ItemsTask(NamedTuple):
    """A part of the list of items to write.

    Attributes:
        part: Its number.
        parts: How many there are.
        sources: Number of the pieces that have sent their hashes.
    """

    part: int
    parts: int
    sources: int

    @property
    def file(self) -> str:
        """Its name, relative to the set."""
        return part_file(naming.READ_ITEMS, self.part, self.parts)


def send_hashes(workspace: Workspace, piece: int, parts: int) -> list[int]:
    """Sends the hashes of a listed piece to the parts; returns the sizes of what was sent."""
    with contextlib.closing(Partitions(workspace.scratch_file(), _HASHES, parts)) as ranges:
        for batch in read_batches(_listed(workspace, piece)):
            hashes = uint64(batch["item"])
            ranges.add(part_of(hashes, parts), hashes.view(_HASHES))
        sizes = _exchange(workspace).write_rows(piece, ranges)
    return np.frombuffer(sizes, "<i8").tolist()


def finish_sending(workspace: Workspace, sizes: Sequence[Sequence[int]]) -> None:
    """Ends the sending of hashes, from the sizes of all pieces by their numbers."""
    _exchange(workspace).finish([np.array(own, "<i8").tobytes() for own in sizes])
    write_marker(workspace, _sent(workspace), [len(sizes[0]), len(sizes)])


def items_tasks(workspace: Workspace) -> list[ItemsTask]:
    """The parts to write of a list whose hashes were sent to them; none of another list."""
    if len(listed_pieces(workspace)) == 1 or storage.stat(_sent(workspace)) is None:
        return []
    parts, sources = read_planned_marker(_sent(workspace))
    return [ItemsTask(part, parts, sources) for part in range(parts)]


def write_items_part(task: ItemsTask, workspace: Workspace, out: Place) -> dict[str, Any]:
    """Writes a part of the list of items; writing it again has the same bytes.

    Args:
        task: The part.
        workspace: Where the listing is.
        out: The set.

    Returns:
        Bytes and SHA-256 by the name of the file.

    Raises:
        InputError: What was sent is damaged.
    """
    exchange = _exchange(workspace)
    received = exchange.rows(task.part, task.sources, _HASHES)
    count = exchange.count(task.part, task.sources, _HASHES)
    hashes = (rows["item"] for _, rows in received)
    return _write_parts(workspace, out, {task.part: task.file}, task.parts, hashes, count)


def _exchange(workspace: Workspace) -> Exchange:
    return Exchange(workspace, "items", workspace.pieces)


def _sent(workspace: Workspace) -> Place:
    return workspace.pieces / "items.json"


def write_item_list(
    workspace: Workspace,
    out: Place,
    summaries: Sequence[UnitSummary] = (),
    written: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Writes the items of a build, unless some could not be read as they were listed.

    Args:
        workspace: Where the listing is.
        out: The set.
        summaries: Summaries of all units.
        written: Bytes and SHA-256 by name of the parts that workers have written.

    Returns:
        Bytes and SHA-256 of all files by their names, for build.json; empty if there is none.
    """
    if any(NOT_READ & one.refused.keys() for one in summaries):
        return {}
    named: dict[str, Any] = {}
    tasks = items_tasks(workspace)
    for task in tasks:
        own = {task.file: written[task.file]} if task.file in written else None
        named |= own or write_items_part(task, workspace, out)
    if tasks:
        return named
    noted = _all_listed(workspace)
    return {} if None in map(storage.stat, noted) else _join(workspace, out, noted)


def merge_item_lists(base: Place, manifest: Manifest, workspace: Workspace) -> dict[str, Any]:
    """Writes the items of all generations; see `write_item_list`."""
    places = [part for place in item_lists(base, manifest) for part in parts_at(place)]
    known = [place for place in places if next(read_batches(place), None) is not None]
    return _join(workspace, workspace.out, known) if known else {}


def _join(workspace: Workspace, out: Place, lists: Sequence[Place]) -> dict[str, Any]:
    """Writes the hashes of some lists as one list."""
    count = sum(len(batch) for place in lists for batch in read_batches(place))
    parts = item_parts(count)
    names = {part: part_file(naming.READ_ITEMS, part, parts) for part in range(parts)}
    hashes = (uint64(batch["item"]) for place in lists for batch in read_batches(place))
    return _write_parts(workspace, out, names, parts, hashes, count)


def _write_parts(
    workspace: Workspace,
    out: Place,
    names: Mapping[int, str],
    parts: int,
    hashes: Iterable[UInt64Array],
    count: int,
) -> dict[str, Any]:
    """Writes neighbouring parts in order and each hash once, a range of them at a time.

    Args:
        workspace: Where there is room for what waits.
        out: The set.
        names: Names of the files, by the number of the part, ascending.
        parts: Number of all parts.
        hashes: Hashes that are in these parts.
        count: How many there are, about.
    """
    storage.make_folder(out / naming.FINGERPRINTS_DIR)
    files, first = len(names), min(names) << _HASH_BITS
    each = max(1, min(_MOST_PARTITIONS // files, 1 + count // (_BATCH_ROWS * files)))
    number = files * each
    with contextlib.closing(Partitions(workspace.scratch_file(), _HASHES, number)) as ranges:
        for own in hashes:
            inside = _positions(own, parts) - first
            ranges.add(inside * each >> _HASH_BITS, own.view(_HASHES))
        taken = ranges.take()
        for name in names.values():
            with _writer(workspace, out / name) as writer:
                for rows in itertools.islice(taken, each):
                    items = np.unique(rows["item"])
                    for start in range(0, len(items), _BATCH_ROWS):
                        writer.write_batch(_batch(items[start : start + _BATCH_ROWS]))
    return {name: file_info(out / name) for name in names.values()}


def part_of(hashes: UInt64Array, parts: int) -> IntArray:
    """[n] int64 in [0, parts), the part of a list in which each hash is."""
    return _positions(hashes, parts) >> _HASH_BITS


def _positions(hashes: UInt64Array, parts: int) -> IntArray:
    """[n] int64, the number of the part of each hash, and behind it the place in the part."""
    return (hashes >> np.uint64(64 - _HASH_BITS)).astype(np.int64) * parts


def item_lists(base: Place, manifest: Manifest) -> list[Place]:
    """Where the lists of all generations are, up to that of a manifest."""
    folders = [one.folder for one in manifest.generations] or [""]
    return [base / below(folder, naming.READ_ITEMS) for folder in folders]


def hashes_in(place: Place) -> UInt64Array:
    """The items of a list, ascending; none if there is no file."""
    return np.concatenate([np.zeros(0, np.uint64), *parts_in(place)])


def parts_in(place: Place) -> list[UInt64Array]:
    """The items of every part of a list, each ascending; nothing if a part is missing."""
    return [uint64(read_table(part)["item"]) for part in parts_at(place)]


@contextlib.contextmanager
def _writer(workspace: Workspace, place: Place) -> Iterator[pa.RecordBatchWriter]:
    with (
        workspace.write_arrow(place, durable=True) as sink,
        pa.ipc.new_file(sink, _SCHEMA) as writer,
    ):
        yield writer


def _batch(hashes: UInt64Array) -> pa.RecordBatch:
    return pa.record_batch([pa.array(hashes)], schema=_SCHEMA)
