"""The time of each stage of a stream, from the same chain cut short behind every stage.

Stages run in parallel, so a clock cannot time them: a stage takes the CPU time of the chain with
it, less that of the chain without it. CPU times add up, whatever else runs on however many cores;
rates do not.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from reader.loader import BatchLoader
from reader.profiling.clock import Clock, Elapsed
from reader.profiling.sampled_loader import open_again, sampled_loader
from reader.profiling.storage_benchmark import StorageTimes, measure_storage
from reader.record_types.base import ElementSpec, Parser
from reader.stream import Stream
from reader.windows import WindowRows
from shard_format import UsageError

_ROUNDS = 2  # so that a busy second of the machine does not fall upon one stage
_WARM_UP = 0.4  # of the time that is measured: until what is read ahead has filled

OnStage = Callable[[str], None]  # called with the name of what is measured next


@dataclasses.dataclass(frozen=True)
class ChainTimes:
    """The time of a chain, in seconds per record.

    Attributes:
        seconds: Until the next record comes, all cores at work, and none for other programs.
        cpu_seconds: CPU time over all threads.
    """

    seconds: float
    cpu_seconds: float


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a chain.

    Attributes:
        name: "storage", "parse", "decode" (with crop and resize), "augment" or "batch".
        cpu_seconds: CPU time per record that this stage adds.
        up_to_here: Rate of the chain cut short behind this stage, records from memory.
    """

    name: str
    cpu_seconds: float
    up_to_here: ChainTimes


@dataclasses.dataclass(frozen=True)
class StageTimes:
    """The times of a stream.

    Attributes:
        storage: Rates of the files.
        reads_files: Whether the stream reads them every time; else its records are in memory.
        stages: In the order in which a record passes them. "storage" is the CPU time of reading
            files, where they are read, and of finding out which record is next.
        chain: Rates of the whole stream, storage left out.
    """

    storage: StorageTimes
    reads_files: bool
    stages: tuple[Stage, ...]
    chain: ChainTimes

    @property
    def slowest(self) -> Stage:
        """The stage that takes the most CPU time."""
        return max(self.stages, key=lambda stage: stage.cpu_seconds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Undecoded(Parser):
    """Records that are not decoded: an element is the number of a record."""

    element_shape = property(lambda self: ())
    element_dtype = property(lambda self: "int64")
    specs = property(lambda self: ElementSpec((), "int64"))
    targets = property(lambda self: "none")

    @override
    def decode(self, rows: WindowRows, memory: Any, begin: int) -> Any:
        return rows.numbers

    @override
    def join(self, memory: Any, parts: list[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
        return np.concatenate(parts)


def loaders_by_stage(loader: BatchLoader) -> list[tuple[str, BatchLoader]]:
    """(stage, loader that ends behind it) for every stage; the last is the whole one."""
    undecoded = _Undecoded(features=())
    windows = dataclasses.replace(loader.windows, features=())
    return [
        ("storage", dataclasses.replace(loader, windows=windows, parser=undecoded)),
        ("parse", dataclasses.replace(loader, parser=undecoded)),
        *((name, dataclasses.replace(loader, parser=cut)) for name, cut in loader.parser.stages()),
    ]


def measure_stages(
    stream: Stream, seconds: float, on_stage: OnStage = lambda name: None
) -> StageTimes:
    """The time of each stage of a stream, on the same records, with nothing else running.

    Args:
        stream: From `reader.load`; itself it is not read.
        seconds: For each measurement, above 0; there are six for images.
        on_stage: Called as each begins.

    Raises:
        UsageError: The time is not above 0.
    """
    if not seconds > 0:
        raise UsageError(f"seconds is {seconds} in reader.measure_stages. Pass a number above 0.")
    on_stage("storage")
    storage = measure_storage(open_again(stream), seconds)
    drains = {name: _Drain(cut) for name, cut in loaders_by_stage(sampled_loader(stream))}
    chains: dict[str, ChainTimes] = {}
    for _ in range(_ROUNDS):
        for name, drain in drains.items():
            on_stage(name)
            times = drain.measure(seconds / _ROUNDS)
            chains[name] = _least(chains.get(name, times), times)
    stages: list[Stage] = []
    before = 0.0
    reads_files = stream.info.cache != "memory"
    for name, chain in chains.items():
        added = chain.cpu_seconds - before
        if name == "storage" and reads_files:
            added += storage.cpu_seconds
        # Noise may make a stage that does next to nothing a gain.
        stages.append(Stage(name, max(0.0, added), chain))
        before = chain.cpu_seconds
    return StageTimes(storage, reads_files, tuple(stages), chain)


def _least(one: ChainTimes, other: ChainTimes) -> ChainTimes:
    """Whatever else a machine does makes times longer, never shorter."""
    return ChainTimes(min(one.seconds, other.seconds), min(one.cpu_seconds, other.cpu_seconds))


class _Drain:
    """Takes batches from an endless loader and drops them.

    Args:
        loader: The loader.
    """

    def __init__(self, loader: BatchLoader) -> None:
        self._loader, self._batches = loader, loader.batches(0, 0)

    def measure(self, seconds: float) -> ChainTimes:
        """What a record takes, after a warm-up: between two measurements buffers have filled."""
        self._take(_WARM_UP * seconds)
        dropped, elapsed = self._take(seconds)
        records = dropped * self._loader.share
        return ChainTimes(elapsed.alone_seconds / records, elapsed.cpu_seconds / records)

    def _take(self, seconds: float) -> tuple[int, Elapsed]:
        """The batches that were dropped in some seconds, at least one, and the time it took."""
        clock, dropped = Clock(), 0
        end = time.perf_counter() + seconds
        while not dropped or time.perf_counter() < end:
            next(self._batches)
            dropped += 1
        return dropped, clock.elapsed()
