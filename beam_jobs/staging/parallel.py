"""Many files at a time, where each one is a request that takes long."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

IN_FLIGHT = 16  # files of one worker

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(
    function: Callable[[Item], Result], items: Iterable[Item], *, remote: bool
) -> Iterator[Result]:
    """The results in order; where a request takes long, of the next items at a time."""
    if not remote:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="staged") as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > IN_FLIGHT:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
