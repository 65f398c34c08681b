"""Ranges of objects that are requested before they are read, in the order of a list of work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from foundation.storage.base import Item, Range, Url
from foundation.storage.in_flight import MAX_BYTES, MAX_REQUESTS, start
from foundation.storage.object_file import Answer, Block

# Larger files are read in sequence, which has its own requests in flight.
_MOST_BYTES = 8 << 20  # 8 MiB
# Neighbours in an archive are one request up to this size.
_JOINED_BYTES = 2 << 20  # 2 MiB
_MAX_GAP_BYTES = 64 << 10  # 64 KiB, such as headers between the members of a tar archive


class _Fetched(NamedTuple):
    url: Url
    block: Block


class Prefetched:
    """The ranges that are on their way for all threads of a process.

    Args:
        request: From object, offset and size to the bytes.
    """

    def __init__(self, request: Callable[[Url, int, int], Answer]) -> None:
        self._request = request
        self._lock = threading.Lock()
        self._fetched: dict[Url, list[Block]] = {}

    def find(self, url: Url, offset: int) -> Block | None:
        """The range of an object that has an offset and was requested; None if there is none."""
        with self._lock:
            blocks = self._fetched.get(url, ())
            return next((one for one in blocks if one.start <= offset < one.end), None)

    def ahead(
        self, items: Iterable[Item], range_of: Callable[[Item], Range | None]
    ) -> Iterator[Item]:
        """Yields items while the ranges of the next ones are on their way.

        A range is given up when the item after its last one is asked for.
        """
        waiting: deque[tuple[list[Item], _Fetched | None]] = deque()
        held = 0
        try:
            for group, wanted in _joined(items, range_of):
                if wanted is None and not waiting:  # so is every file of a local corpus
                    yield from group
                    continue
                size = wanted.size if wanted else 0
                while waiting and (len(waiting) >= MAX_REQUESTS or held + size > MAX_BYTES):
                    used, fetched = waiting.popleft()
                    held -= fetched.block.end - fetched.block.start if fetched else 0
                    yield from self._used(used, fetched)
                waiting.append((group, self._start(wanted)))
                held += size
            while waiting:
                yield from self._used(*waiting.popleft())
        finally:
            for _, fetched in waiting:
                self._forget(fetched)

    def _used(self, group: list[Item], fetched: _Fetched | None) -> Iterator[Item]:
        try:
            yield from group
        finally:
            self._forget(fetched)

    def _start(self, wanted: Range | None) -> _Fetched | None:
        if wanted is None:
            return None
        url, offset, size = wanted
        answer = start(lambda: self._request(url, offset, size))
        block = Block(offset, offset + size, answer)
        with self._lock:
            self._fetched.setdefault(url, []).append(block)
        return _Fetched(url, block)

    def _forget(self, fetched: _Fetched | None) -> None:
        if fetched is None:
            return
        url, block = fetched
        block.answer.cancel()
        with self._lock:
            blocks = self._fetched[url]
            blocks.remove(block)
            if not blocks:
                del self._fetched[url]


def _joined(
    items: Iterable[Item], range_of: Callable[[Item], Range | None]
) -> Iterator[tuple[list[Item], Range | None]]:
    """Items that follow each other in one object, with the range that they are in together."""
    group: list[Item] = []
    joined: Range | None = None
    for item in items:
        wanted = range_of(item)
        if wanted is not None and not 0 < wanted.size <= _MOST_BYTES:
            wanted = None
        if joined is not None and wanted is not None and wanted.url == joined.url:
            gap = wanted.offset - (joined.offset + joined.size)
            size = wanted.offset + wanted.size - joined.offset
            if 0 <= gap <= _MAX_GAP_BYTES and size <= _JOINED_BYTES:
                group.append(item)
                joined = joined._replace(size=size)
                continue
        if group:
            yield group, joined
        group, joined = [item], wanted
    if group:
        yield group, joined
