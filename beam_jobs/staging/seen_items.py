"""Which files a set has read: so that an append to it reads only what is new in a grown folder.

A list of them (`item_list`) has a 64-bit hash of every item of the listing: id, size, modification
time, label and place in an archive, which is what the keys of units are made of too. An item with a
known hash was read before and has not changed. Hashes name no record; those of records that
`compact --remove` took out stay, so a later append does not bring them back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from beam_jobs.columns import IntArray
from beam_jobs.corpus.record import WHOLE_FILE, SourceItem
from beam_jobs.corpus.replacements import before_replacement
from beam_jobs.options import PreprocessOptions
from beam_jobs.staging.item_list import item_lists, part_of, parts_in
from foundation import storage
from foundation.storage import Place
from shard_format import Manifest, load_manifest
from shard_format.keys import UInt64Array

_WHOLE_FILE = repr(WHOLE_FILE)


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
        self._lists = [parts_in(place) for place in places]

    def __bool__(self) -> bool:
        return bool(self._lists)

    def generation_of(self, hashes: UInt64Array) -> IntArray:
        """[n] int64: the number of the last list that has each item; -1 if none has."""
        generations = np.full(len(hashes), -1, np.int64)
        for number, parts in enumerate(self._lists):
            owners = part_of(hashes, len(parts))
            for part, known in enumerate(parts):
                rows = np.flatnonzero(owners == part)
                if len(known) and len(rows):
                    at = np.minimum(np.searchsorted(known, hashes[rows]), len(known) - 1)
                    generations[rows[known[at] == hashes[rows]]] = number
        return generations


def items_of(base: Place, manifest: Manifest) -> KnownItems:
    """What the generations of a set have read, up to that of a manifest."""
    return KnownItems(item_lists(base, manifest))


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
