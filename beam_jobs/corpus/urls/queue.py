"""Requests ahead of the records of a list: given back in its order, bounded in number and bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from beam_jobs import bounds
from beam_jobs.corpus.urls.client import Outcome, UrlClient


class _Request:
    """A URL at work, and the bytes that it holds; without a URL there is nothing to wait for."""

    def __init__(self, queue: UrlQueue, url: str | None) -> None:
        self._queue = queue
        self.size = 0
        self.task: asyncio.Task[Outcome] | None = None
        if url is not None:
            self.task = asyncio.create_task(queue.fetch(url, self))

    @property
    def is_done(self) -> bool:
        return self.task is None or self.task.done()

    def add(self, size: int) -> None:
        self.size += size
        self._queue.held += size

    def clear(self) -> None:
        self.add(-self.size)
        self._queue.changed()

    @property
    def must_wait(self) -> bool:
        # The first one never waits: its record is what the others wait for.
        return self._queue.held > bounds.FETCHED_BYTES and self._queue.first is not self

    async def room(self) -> None:
        while self.must_wait:
            await self._queue.change()


class UrlQueue:
    """The requests of one worker, in the order of its records; all but `__init__` in the loop.

    Args:
        client: Fetches.

    Attributes:
        held: Bytes of bodies, also of those that are only begun.
    """

    def __init__(self, client: UrlClient) -> None:
        self._client = client
        self._requests: deque[_Request] = deque()
        self._given = 0  # bytes that the worker has got last, and still holds
        self._change = asyncio.Event()
        self.held = 0

    @property
    def first(self) -> _Request | None:
        """The request whose outcome is given next."""
        return self._requests[0] if self._requests else None

    async def exchange(self, urls: Sequence[str | None]) -> list[Outcome | None]:
        """Takes more URLs; returns the next outcomes, of at least one if there is any.

        Args:
            urls: None for a record without a request, whose outcome is None too.
        """
        self.held -= self._given
        self._given = 0
        self._requests.extend(_Request(self, url) for url in urls)
        self.changed()
        first = self.first
        if first is not None and first.task is not None:
            await asyncio.wait([first.task])
        outcomes: list[Outcome | None] = []
        while self._requests and self._requests[0].is_done:
            request = self._requests.popleft()
            outcomes.append(None if request.task is None else request.task.result())
            self._given += request.size
        self.changed()
        return outcomes

    async def ask(self, url: str) -> Outcome:
        """What one URL gives, of a queue without others."""
        request = _Request(self, None)
        self._requests.append(request)
        return await self._client.fetch(url, request)

    async def fetch(self, url: str, request: _Request) -> Outcome:
        """What a URL gives, once there is memory for it."""
        await request.room()
        return await self._client.fetch(url, request)

    def changed(self) -> None:
        """Wakes all requests that wait for memory."""
        self._change.set()
        self._change = asyncio.Event()

    async def change(self) -> None:
        """Waits until memory is given back, or another request is the first."""
        await self._change.wait()

    async def close(self) -> None:
        """Ends the requests that are left."""
        tasks = [one.task for one in self._requests if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
