"""The local engine: the steps of a job on this machine, without Beam.

The import of Beam takes longer than the whole of a small job, and its local engine does no more
than this. The steps are those that Beam gets (`pipeline.steps`), done one after the other; the
elements of a step that is spread go to whichever worker is free: a thread of the launcher, or for a
larger job a process (`engine.processes`), for which a thread then waits.
"""

from __future__ import annotations

import copy
import math
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from beam_jobs.engine.processes import WorkerProcesses
from beam_jobs.memory import release_memory
from beam_jobs.pipeline import BUILDS, Step
from beam_jobs.work import Work, count_nothing
from foundation.machine import usable_cores

# Between two buckets a thread waits for more than half of its time (decision 0038).
_THREADS_PER_CORE = 2


def num_threads(workers: int | None, *, remote: bool) -> int:
    """Returns the number of workers of a job.

    Args:
        workers: As the user says; None for one per usable core.
        remote: Whether they wait for an object store, and so leave their cores to as many others.
    """
    cores = math.ceil(usable_cores())
    return workers or (cores * _THREADS_PER_CORE if remote else cores)


def run_here(
    steps: Iterable[Step], first: object, workers: int, processes: WorkerProcesses | None = None
) -> None:
    """Does all steps of a job.

    After an error the elements that wait are dropped, and those at work are awaited.

    Args:
        steps: In an order in which they can be done.
        first: The listed corpus, or what else is in the place of it.
        workers: Number of threads.
        processes: As many worker processes; None to do everything in threads.
    """
    made: dict[str, Sequence[Any]] = {BUILDS: [first]}
    for step in steps:
        step_workers = StepWorkers(step, [made[name] for name in step.whole], processes)
        try:
            elements = made[step.each]
            threads = min(workers, len(elements)) if step.spread else 1
            made[step.name] = step_workers.run(elements, threads)
        finally:
            step_workers.finish()
        release_memory()


class StepWorkers:
    """Workers of one step, each with a copy of its work, as the processes of an engine have."""

    def __init__(
        self, step: Step, whole: Sequence[Sequence[Any]], processes: WorkerProcesses | None
    ) -> None:
        self._step = step
        self._whole = whole
        self._processes = processes
        self._own = threading.local()
        self._copies: list[Work] = []

    def run(self, elements: Sequence[Any], threads: int) -> list[Any]:
        """Processes all elements and returns the outputs in order."""
        if threads <= 1:
            return [output for element in elements for output in self._process(element)]
        waiting = deque(enumerate(elements))
        with ThreadPoolExecutor(threads, thread_name_prefix="worker") as pool:
            futures = [pool.submit(self._spread, waiting) for _ in elements]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
            for future in futures:
                if not future.cancelled() and future.exception():
                    future.result()  # raises it
            done = dict(future.result() for future in futures)
            return [output for number in sorted(done) for output in done[number]]

    def finish(self) -> None:
        """Ends the work of every worker."""
        for work in self._copies:
            work.finish()
        if self._processes is not None:
            self._processes.finish_step()

    def _spread(self, waiting: deque[tuple[int, Any]]) -> tuple[int, list[Any]]:
        """Processes an element that waits, and returns its number and outputs.

        The first ones are the largest: they are for processes, which are soon ready.
        """
        if self._processes is None:
            number, element = waiting.popleft()
            return number, self._process(element)
        with self._processes.one() as process:
            if process is not None:
                number, element = waiting.popleft()
                return number, process.do(self._step.work, element)
        number, element = waiting.pop()
        return number, self._process(element)

    def _process(self, element: Any) -> list[Any]:
        work = getattr(self._own, "work", None)
        if work is None:
            work = self._own.work = copy.copy(self._step.work)
            work.setup(count_nothing)
            self._copies.append(work)
        try:
            return list(work.process(element, *self._whole))
        finally:
            release_memory()
