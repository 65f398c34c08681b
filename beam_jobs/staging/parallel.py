"""Many files at a time, where each one is a request that takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

IN_FLIGHT = 16  # files of one worker

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(
    function: Callable[[Item], Result], items: Iterable[Item], *, remote: bool
) -> Iterator[Result]:
    """The results in order; where a request takes long, of many items at a time."""
    if not remote:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="staged") as pool:
        yield from pool.map(function, items)
