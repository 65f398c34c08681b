"""The local engine where kernels release the lock: the steps of a job, in threads of this process.

The import of Beam takes longer than the whole of a small job, and its local engine does no more
with threads than this. The steps are those that Beam gets (`pipeline.steps`), done one after the
other; the elements of a step that is spread go to whichever worker is free.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import math
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import pyarrow as pa

from beam_jobs.build import Build
from beam_jobs.engine.counts import count_nothing
from beam_jobs.pipeline import BUILDS, Step, Work
from shard_format.machine import usable_cores

# Processes take about 3 s to start. On 2 cores, threads are ahead up to some 240 MiB of text (of 60
# MiB 3.7 against 6.0 s); with more cores up to less, since a part of the work holds the lock.
_WORTH_PROCESSES = 64 << 20  # 64 MiB
# Between two buckets a thread waits for more than half of its time (benchmarks.remote_sources).
THREADS_PER_CORE = 2


def fits_threads(*, runs_python: bool, corpus_bytes: int) -> bool:
    """Whether a job on this machine takes threads, not processes.

    Image kernels release the interpreter's lock, so threads scale and share one interpreter's
    memory: JPEG decode, resize and encode on 2 cores ran at 1.24 times the rate of processes.
    Kernels that hold the lock need processes, which take seconds to start.

    Args:
        runs_python: Whether the kernels hold the lock.
        corpus_bytes: Size of the corpus.
    """
    return not runs_python or corpus_bytes < _WORTH_PROCESSES


def num_threads(workers: int | None, *, remote: bool) -> int:
    """How many threads a job gets.

    Args:
        workers: As the user says; None for one per usable core.
        remote: Whether they wait for an object store, and so leave their cores to as many others.
    """
    cores = math.ceil(usable_cores())
    return workers or (cores * THREADS_PER_CORE if remote else cores)


def run_in_threads(steps: Iterable[Step], build: Build, workers: int) -> None:
    """Does all steps of a job.

    After an error the elements that wait are dropped, and those at work are awaited.

    Args:
        steps: In an order in which they can be done.
        build: The listed corpus.
        workers: Number of threads.
    """
    made: dict[str, Sequence[Any]] = {BUILDS: [build]}
    for step in steps:
        crew = _Crew(step.work, [made[name] for name in step.whole])
        try:
            elements = made[step.each]
            threads = min(workers, len(elements)) if step.spread else 1
            made[step.name] = crew.run(elements, threads)
        finally:
            crew.finish()
        _release_memory()


def _release_memory() -> None:
    """Gives the system what is free inside of allocators: else each step adds to the last one."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


class _Crew:
    """The workers of a step, each with a copy of its work, as the processes of an engine have."""

    def __init__(self, work: Work, whole: Sequence[Sequence[Any]]) -> None:
        self._work = work
        self._whole = whole
        self._own = threading.local()
        self._copies: list[Work] = []

    def run(self, elements: Sequence[Any], threads: int) -> list[Any]:
        """What becomes of all elements, in their order."""
        if threads <= 1:
            return [found for element in elements for found in self._process(element)]
        with ThreadPoolExecutor(threads, thread_name_prefix="worker") as pool:
            futures = [pool.submit(self._process, element) for element in elements]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
            failed = [future for future in futures if not future.cancelled() and future.exception()]
            return [found for future in failed or futures for found in future.result()]

    def finish(self) -> None:
        for work in self._copies:
            work.finish()

    def _process(self, element: Any) -> list[Any]:
        work = getattr(self._own, "work", None)
        if work is None:
            work = self._own.work = copy.copy(self._work)
            work.setup(count_nothing)
            self._copies.append(work)
        return list(work.process(element, *self._whole))
