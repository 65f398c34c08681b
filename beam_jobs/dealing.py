"""Units to workers as they become free, on an engine that would deal them out beforehand.

Beam's local engine cuts the elements of a stage into one equal share per worker before it begins,
so the whole job waits for the unluckiest worker. When the workers are threads of one process, the
first unit that reaches a worker makes it take units from a common queue until none is left; the
other units of its share then find nothing to do. Everywhere else (processes, clusters) there is no
queue, and a worker stages the unit it was given. There must be none where a bundle may run twice,
for the second time it would find nothing; `runners.deals_here` knows.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator

from beam_jobs.listing import Unit

# By run id. A process may run several builds, one thread each.
_QUEUES: dict[str, deque[Unit]] = {}


@contextlib.contextmanager
def dealt_here(run_id: str, units: Iterable[Unit]) -> Iterator[None]:
    """While this lasts, workers in this process share the units of the run."""
    _QUEUES[run_id] = deque(units)
    try:
        yield
    finally:
        del _QUEUES[run_id]


def take(run_id: str, given: Unit) -> Iterator[Unit]:
    """What a worker that was given a unit should stage: each unit goes to exactly one worker."""
    queue = _QUEUES.get(run_id)
    if queue is None:
        yield given
        return
    while True:
        try:
            yield queue.popleft()  # atomic
        except IndexError:
            return
