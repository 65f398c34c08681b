"""Which files a set has read: so that an append to it reads only what is new in a grown folder.

`fingerprints/items.arrow` has a 64-bit hash of every item of the listing: id, size, modification
time, label and place in an archive, which is what the keys of units are made of too. An item with a
known hash was read before and has not changed. Hashes name no record; those of records that
`compact --remove` took out stay, so a later append does not bring them back.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray, uint64
from beam_jobs.corpus.record import WHOLE_FILE, SourceItem
from beam_jobs.corpus.replacements import before_replacement
from beam_jobs.options import PreprocessOptions
from beam_jobs.staging.reordering import Partitions
from beam_jobs.staging.units import NOT_READ, UnitSummary, listed_pieces
from beam_jobs.workspace import Workspace, read_batches, read_table
from foundation import storage
from foundation.storage import Place
from shard_format import Manifest, file_info, load_manifest, naming
from shard_format.keys import UInt64Array
from shard_format.naming import below

_SCHEMA = pa.schema([pa.field("item", pa.uint64(), nullable=False)])
_BATCH_ROWS = 1 << 16  # that are in memory at a time
_MOST_PARTITIONS = 256
_WHOLE_FILE = repr(WHOLE_FILE)
_HASHES = np.dtype([("item", np.uint64)])


def item_identity(item: SourceItem) -> bytes:
    """What decides how an item is staged, without its path: a corpus may be mounted elsewhere."""
    replaced = b"replaced" if item.replacement else b""
    where = _WHOLE_FILE if item.locator is WHOLE_FILE else repr(item.locator)
    # As `repr` has it of an item without its path, which takes three times as long.
    return (
        f"SourceItem(record_id={item.record_id!r}, path=b'', label={item.label!r}, "
        f"size={item.size!r}, mtime_ns={item.mtime_ns!r}, reason={item.reason!r}, "
        f"detail={item.detail!r}, locator={where}, block=0, group={item.group!r}, "
        f"split={item.split!r}, kept={item.kept!r}, replacement={replaced!r})"
    ).encode()


def reading_key(reading: Sequence[Any]) -> bytes:
    """The options that decide how items are read, as a key for the hashes of items."""
    return hashlib.blake2b(repr(list(reading)).encode(), digest_size=16).digest()


def item_hash(identity: bytes, reading: bytes) -> int:
    """The hash of an item, from its `item_identity` and a `reading_key`."""
    digest = hashlib.blake2b(identity, digest_size=8, key=reading).digest()
    return int.from_bytes(digest, "big")


class KnownItems:
    """Lists of items that were read, such as those of the generations of a set.

    Args:
        places: The lists; one that is missing has no item.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self._hashes = [hashes_in(place) for place in places]

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def generation_of(self, hashes: UInt64Array) -> IntArray:
        """[n] int64: the number of the last list that has each item; -1 if none has."""
        generations = np.full(len(hashes), -1, np.int64)
        for number, known in enumerate(self._hashes):
            if len(known):
                at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
                generations[known[at] == hashes] = number
        return generations


def items_of(base: Place, manifest: Manifest) -> KnownItems:
    """What the generations of a set have read, up to that of a manifest."""
    return KnownItems(_places(base, manifest))


class SeenItemFilter:
    """Leaves out items that other generations of the set have read.

    Args:
        options: The job; only with `base` there are any.

    Attributes:
        known: Number of items that were left out.
        known_bytes: Their bytes.
        known_to: The last generation that has read one of them; -1 for none.
    """

    def __init__(self, options: PreprocessOptions) -> None:
        self._reading = reading_key(options.reading())
        self._items: KnownItems | None = None
        if options.base:
            base = storage.place_of(options.base)
            self._items = items_of(base, load_manifest(base, options.base_generation))
        self._others = KnownItems(map(storage.place_of, options.without_items))
        self._own = KnownItems(map(storage.place_of, filter(None, [options.only_items])))
        self.known = self.known_bytes = 0
        self.known_to = -1

    def filter(self, items: list[SourceItem]) -> list[SourceItem]:
        """Returns those that no generation has read."""
        if self._items is None and not self._others and not self._own:
            return items
        hashes = self._hashes(items)
        left = np.ones(len(items), bool)
        if self._others:
            for keys in (hashes, self._hashes(map(before_replacement, items))):
                left &= self._others.generation_of(keys) < 0
        if self._own:
            left &= self._own.generation_of(hashes) >= 0
        items = [items[row] for row in np.flatnonzero(left).tolist()]
        if self._items is None:
            return items
        hashes = hashes[left]
        known = self._items.generation_of(hashes)
        self.known += int((known >= 0).sum())
        self.known_to = max(self.known_to, int(known.max(initial=-1)))
        self.known_bytes += sum(items[row].size for row in np.flatnonzero(known >= 0).tolist())
        return [items[row] for row in np.flatnonzero(known < 0).tolist()]

    def _hashes(self, items: Iterable[SourceItem]) -> UInt64Array:
        hashes = (item_hash(item_identity(item), self._reading) for item in items)
        return np.fromiter(hashes, np.uint64)


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


def write_seen_items(
    workspace: Workspace, summaries: Sequence[UnitSummary], listed: Workspace | None = None
) -> dict[str, Any]:
    """Writes the items of a build, unless some could not be read as they were listed.

    Args:
        workspace: The build.
        summaries: Summaries of all units.
        listed: Where the listing is; None if there.

    Returns:
        Bytes and SHA-256 of the file by its name, for build.json; empty if there is none.
    """
    final = workspace.out / naming.READ_ITEMS
    storage.delete(final)
    noted = _all_listed(listed or workspace)
    if any(NOT_READ & one.refused.keys() for one in summaries) or None in map(storage.stat, noted):
        return {}
    return _write_final(listed or workspace, final, noted)


def merge_seen_items(base: Place, manifest: Manifest, workspace: Workspace) -> dict[str, Any]:
    """Writes the items of all generations; see `write_seen_items`."""
    places = [place for place in _places(base, manifest) if storage.stat(place) is not None]
    known = [place for place in places if next(read_batches(place), None) is not None]
    final = workspace.out / naming.READ_ITEMS
    storage.delete(final)
    return _write_final(workspace, final, known) if known else {}


def _write_final(workspace: Workspace, final: Place, lists: Sequence[Place]) -> dict[str, Any]:
    """Writes the hashes of some lists in order and each once, a range of them at a time."""
    storage.make_folder(final.parent)
    size = sum(stat.size for stat in map(storage.stat, lists) if stat is not None)
    number = min(_MOST_PARTITIONS, 1 + size // (_BATCH_ROWS * _HASHES.itemsize))
    with (
        _writer(workspace, final) as writer,
        contextlib.closing(Partitions(workspace.scratch_file(), _HASHES, number)) as ranges,
    ):
        for batch in itertools.chain.from_iterable(map(read_batches, lists)):
            hashes = uint64(batch["item"])
            leading = (hashes >> np.uint64(32)).astype(np.int64)
            ranges.add(leading * number >> 32, hashes.view(_HASHES))
        for rows in ranges.take():
            items = np.unique(rows["item"])
            for start in range(0, len(items), _BATCH_ROWS):
                writer.write_batch(_batch(items[start : start + _BATCH_ROWS]))
    return {naming.READ_ITEMS: file_info(final)}


def _places(base: Place, manifest: Manifest) -> list[Place]:
    folders = [one.folder for one in manifest.generations] or [""]
    return [base / below(folder, naming.READ_ITEMS) for folder in folders]


def hashes_in(place: Place) -> UInt64Array:
    """The items of a list; none if there is no file."""
    if storage.stat(place) is None:
        return np.zeros(0, np.uint64)
    return uint64(read_table(place)["item"])


@contextlib.contextmanager
def _writer(workspace: Workspace, place: Place) -> Iterator[pa.RecordBatchWriter]:
    with (
        workspace.write_arrow(place, durable=True) as sink,
        pa.ipc.new_file(sink, _SCHEMA) as writer,
    ):
        yield writer


def _batch(hashes: UInt64Array) -> pa.RecordBatch:
    return pa.record_batch([pa.array(hashes)], schema=_SCHEMA)
