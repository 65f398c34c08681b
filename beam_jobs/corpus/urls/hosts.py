"""The hosts that are asked: how many requests they get, when they get none, and how they fail."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from beam_jobs.corpus.record import Rejection

MOST_PAUSE_SECONDS = 30.0  # a server that asks for more is left for a replay
_FAILURES_IN_A_ROW = 32  # of a host, after which its requests are not repeated


class Share(Protocol):
    """The part of the memory for bodies that one request takes."""

    def add(self, size: int) -> None:
        """Counts bytes that are held now."""

    def clear(self) -> None:
        """Counts all of them as given back."""

    @property
    def must_wait(self) -> bool:
        """Whether no more bytes may be held for now."""

    async def room(self) -> None:
        """Waits until more bytes may be held."""


class FailedAttempt(Exception):
    """An attempt failed, and another one may not.

    Args:
        rejection: What becomes of the URL without another attempt.
        pause: Seconds that the server asks for.
        repeats: Whether another attempt is worth its time.
    """

    def __init__(self, rejection: Rejection, pause: float = 0.0, *, repeats: bool = True) -> None:
        super().__init__(rejection)
        self.rejection = rejection
        self.pause = pause
        self.repeats = repeats and pause <= MOST_PAUSE_SECONDS


class UrlHost:
    """What is known of a host.

    Attributes:
        requests: Bounds the requests at a time.
        failures: Number of attempts that failed one after the other.
        resumes_at: Monotonic seconds before which it wants no request.
    """

    def __init__(self, connections: int) -> None:
        self.requests = asyncio.Semaphore(connections)
        self.failures = 0
        self.resumes_at = 0.0

    def failed(
        self, rejection: Rejection, pause: float = 0.0, *, repeats: bool = True
    ) -> FailedAttempt:
        """The failure of an attempt; the host has its pause, unless it does nothing but fail."""
        self.failures += 1
        repeats = repeats and self.failures < _FAILURES_IN_A_ROW
        failure = FailedAttempt(rejection, pause, repeats=repeats)
        if failure.repeats:
            self.resumes_at = max(self.resumes_at, time.monotonic() + pause)
        return failure

    async def wait(self) -> None:
        """Waits until the time that the host has asked for."""
        while (left := self.resumes_at - time.monotonic()) > 0:
            await asyncio.sleep(left)


class Turn:
    """A place among the requests of a host and among all, and the time that is left.

    A request that waits for memory has none meanwhile: others, whose records come first, may need
    its place, and their records are what it waits for.
    """

    def __init__(self, host: UrlHost, places: asyncio.Semaphore) -> None:
        self._bounds = (host.requests, places)
        self._host = host
        self._taken: list[asyncio.Semaphore] = []

    async def __aenter__(self) -> Turn:
        try:
            await self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._give_back()

    async def wait(self, share: Share, limit: asyncio.Timeout) -> None:
        """Waits until more bytes may be held; the time limit stands still."""
        began, ends = time.monotonic(), limit.when()
        limit.reschedule(None)
        self._give_back()
        await share.room()
        await self._take()
        if ends is not None:
            limit.reschedule(ends + time.monotonic() - began)

    async def _take(self) -> None:
        for bound in self._bounds:
            await bound.acquire()
            self._taken.append(bound)
            if bound is self._host.requests:
                await self._host.wait()

    def _give_back(self) -> None:
        while self._taken:
            self._taken.pop().release()
