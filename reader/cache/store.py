"""A directory of copies that several sets, splits and processes share, within a limit.

    DIR/.lock                     held for the moment in which somebody decides what to keep
    DIR/.leases/ID                what one stream reads, locked by its process for as long as it may
    DIR/ROOT_HASH/                of one set: its shards, and of a remote one its small files
        FILE.part                 being written, locked by who writes it
        decoded-VERSION/SPLIT/    a split with its images decoded: a shard set of its own

The files are the only record of what is there, and locks (flock) die with their process: there is
nothing that a killed process could leave in disorder. A file under its final name is whole. What a
lease names is never deleted; it also counts as taken before it is copied, so that processes that
come together stay within the limit. The locks need a file system of this machine.

Whatever the cache did not write is not touched: a directory may hold other things too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import shutil
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from foundation.processes.locks import is_same_file, lock, try_lock
from reader.cache.choosing import free_disk_bytes, shown_bytes
from reader.cache.inventory import (
    CachedItem,
    Item,
    delete,
    find_entries,
    find_parts,
    find_roots,
    is_part,
    part_directory,
    stamp,
)
from shard_format import UsageError
from shard_format.naming import INDEX_DIR, MANIFEST

_LOCK, _LEASES = ".lock", ".leases"
# Whoever asks for a cache wants it filled, but other programs write to that disk too.
_DEFAULT_SHARE = 0.5


class CacheLease:
    """The right to find some items in the cache directory. It ends with this object.

    Args:
        path: Path of the file to be made.
        items: What it names, with their sizes.
        limit: Bytes that the directory could hold then.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, path: Path, items: Sequence[Item], limit: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            lock(descriptor)
            os.write(descriptor, json.dumps({item.name: item.bytes for item in items}).encode())
        except OSError:  # the disk is full: who keeps it open holds a lock for as long as he lives
            os.close(descriptor)
            raise
        self.names, self.limit = frozenset(item.name for item in items), limit
        # The file stays behind, unlocked, and the next who looks removes it: as after a kill.
        self._end = weakref.finalize(self, os.close, descriptor)

    def end(self) -> None:
        """Gives the items back."""
        self._end()


class Store:
    """A cache directory.

    Args:
        directory: Made where it is missing.
        limit: Bytes that it may hold; None is half of what is free or already its own.

    Raises:
        OSError: It cannot be written to.
    """

    def __init__(self, directory: Path, limit: int | None = None) -> None:
        self.directory = directory
        (directory / _LEASES).mkdir(parents=True, exist_ok=True)
        self._limit = limit

    def lease(
        self, items: Sequence[Item], *, partial: bool = False, needed_for: str = "a disk cache"
    ) -> CacheLease:
        """A lease on as many of some items as fit, for which room is made.

        Those that are there, or that another process is about to copy, come first, then the others
        in their order. Where not all fit, the choice is kept while the stream lives: under
        a permuted order every shard is as far from its next use as any other, so a cache that
        exchanged them would copy each again and again and hardly ever have the one asked for.

        Args:
            items: What is wanted, by preference.
            partial: Whether some of them will do.
            needed_for: What they are for, for the message.

        Raises:
            UsageError: They do not fit, and all are needed.
        """
        lease, _ = self._try_lease(items, partial=False)
        if lease is not None:
            return lease
        gc.collect()  # of streams that are no longer used, but were not cleared away yet
        lease, (room, limit) = self._try_lease(items, partial)
        if lease is None:
            raise UsageError(_no_room(needed_for, self.directory, items, room, limit))
        return lease

    def _try_lease(
        self, items: Sequence[Item], partial: bool
    ) -> tuple[CacheLease | None, tuple[int, int]]:
        """A lease, or None where not all items fit; and the room there was, of which limit."""
        with self._locked():
            entries = {entry.name: entry for entry in find_entries(self.directory)}
            leased = self._leased()
            limit = self._limit_beside(sum(entry.bytes for entry in entries.values()))
            wanted = {item.name for item in items}
            kept = {name: size for name, size in leased.items() if name not in wanted}
            room = limit - sum(kept.values())
            chosen = _fitting(items, entries.keys() | leased.keys(), room)
            if len(chosen) < len(wanted) and not partial:
                return None, (room, limit)
            self._evict(entries, kept | {item.name: item.bytes for item in chosen}, limit)
            for item in chosen:
                path = self.directory / item.name
                path.parent.mkdir(parents=True, exist_ok=True)
                if item.name in entries:
                    os.utime(stamp(path))
            path = self.directory / _LEASES / uuid.uuid4().hex
            return CacheLease(path, chosen, limit), (room, limit)

    def entries(self) -> list[CachedItem]:
        """What is there, the least recently used first."""
        with self._locked():
            leased = self._leased()
            items = [
                dataclasses.replace(entry, in_use=entry.name in leased)
                for entry in find_entries(self.directory)
            ]
        return sorted(items, key=lambda entry: (entry.used, entry.name))

    def clear(self) -> list[CachedItem]:
        """Deletes everything that no live process uses; returns what was deleted."""
        with self._locked():
            leased = self._leased()
            deleted = [entry for entry in find_entries(self.directory) if entry.name not in leased]
            for entry in deleted:
                delete(self.directory / entry.name)
            used = {name.partition("/")[0] for name in leased}
            for root in (path for path in find_roots(self.directory) if path.name not in used):
                for path in (root / INDEX_DIR, *root.glob("decoded-*"), root):
                    with contextlib.suppress(OSError):  # it is not empty, or not there
                        path.rmdir()
        return deleted

    def _limit_beside(self, present: int) -> int:
        free = free_disk_bytes(self.directory)
        if self._limit is None:
            return int(_DEFAULT_SHARE * (present + free))
        return min(self._limit, present + free)

    @staticmethod
    def is_at(directory: Path) -> bool:
        """Whether there was ever a store in a directory; to look leaves nothing behind."""
        return (directory / _LEASES).is_dir()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.directory / _LOCK).open("w") as file:
            lock(file)
            self._sweep()
            yield

    def _sweep(self) -> None:
        """Removes what dead processes left: leases, and files that were being written."""
        parts = [part for root in find_roots(self.directory) for part in find_parts(root)]
        for path in (*(self.directory / _LEASES).iterdir(), *parts):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                if try_lock(file) and is_same_file(file, path):
                    delete(part_directory(path))
                    path.unlink()
        for root in find_roots(self.directory):
            for split in root.glob("decoded-*/*/"):
                if not is_part(split) and not (split / MANIFEST).exists():
                    shutil.rmtree(split)  # somebody was killed while he deleted it

    def _leased(self) -> dict[str, int]:
        """{name: bytes} of what live processes may read or copy; the directory is locked."""
        leased: dict[str, int] = {}
        for path in (self.directory / _LEASES).iterdir():
            with contextlib.suppress(ValueError):
                leased |= json.loads(path.read_bytes())
        return leased

    def _evict(
        self, entries: Mapping[str, CachedItem], kept: Mapping[str, int], limit: int
    ) -> None:
        """Deletes the least recently used of what is not kept, until the rest is within a limit."""
        sizes = {name: entry.bytes for name, entry in entries.items()} | dict(kept)
        total = sum(sizes.values())
        for entry in sorted(entries.values(), key=lambda entry: (entry.used, entry.name)):
            if total <= limit:
                return
            if entry.name not in kept:
                delete(self.directory / entry.name)
                total -= entry.bytes


def _fitting(items: Sequence[Item], cheap: set[str], room: int) -> list[Item]:
    """As many of the items as there is room for, those that cost nothing first."""
    chosen = []
    for item in sorted(items, key=lambda item: item.name not in cheap):  # a stable sort
        if item.bytes <= room:
            room -= item.bytes
            chosen.append(item)
    return chosen


def _no_room(needed_for: str, directory: Path, items: Sequence[Item], room: int, limit: int) -> str:
    needed = sum(item.bytes for item in items)
    more = shown_bytes(needed - room)
    return (
        f"{needed_for} needs {shown_bytes(needed)}, but {directory} has room for "
        f"{shown_bytes(max(0, room))}: its limit is {shown_bytes(limit)}, and files that other "
        "streams read are not evicted. Pass "
        f"a cache_limit that is {more} larger, another cache_dir, or another cache."
    )
