"""Batches in NumPy: windows are read ahead, and the parts of batches decoded by threads.

What a batch consists of follows from the tasks alone, before anything is read. So a batch is handed
out to threads as parts of windows that are on their way, and several batches are in progress while
the caller has one.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from foundation.machine import usable_cores
from reader.options import ReadOptions
from reader.record_types.base import ElementSpec, Parser
from reader.windows import LOST, Task, WindowRows, Windows

# Batches in progress while the caller has one, and parts for each thread: a thread that is done
# finds the next one waiting.
_BATCHES_AHEAD, _PARTS_AHEAD = 2, 2


class _BatchPiece(NamedTuple):
    """A part of a window in a batch.

    Attributes:
        parser: Parser of its records.
        window: The records of the window, which may be on their way.
        begin: First of them.
        end: One behind the last.
        place: Place of the first in the batch.
    """

    parser: Parser
    window: Future[WindowRows]
    begin: int
    end: int
    place: int


@dataclasses.dataclass(frozen=True)
class BatchLoader:
    """A split of a set, and how its records become batches.

    Attributes:
        windows: Windows to read.
        parser: Parser of the records.
        options: Options of the stream; its batch size is that of all workers.
    """

    windows: Windows
    parser: Parser
    options: ReadOptions

    def batches(self, epoch: int, position: int, worker: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        """The batches from a position on; see `reader.load`.

        Args:
            epoch: Number of the first epoch.
            position: Position in it, a multiple of the batch size.
            worker: (i, n): every nth of these batches alone, from the ith on.

        Raises:
            ShardSetError: A shard cannot be read.
            DamageError: A record is damaged.
        """
        tasks = self.windows.from_position(epoch, position, self.options.epochs)
        return load_batches([(self, tasks)], itertools.repeat([(0, self.share)]), worker)

    @property
    def share(self) -> int:
        """Records of a batch, of this worker."""
        return self.options.batch_size // self.windows.worker_shard.workers

    @property
    def static_size(self) -> int | None:
        """Records of each batch; None where some have fewer."""
        is_fixed = self.options.on_corrupt != "skip" or self.options.remainder == "pad"
        return self.share if is_fixed and self.options.remainder != "keep" else None

    @property
    def specs(self) -> Any:
        """An `ElementSpec` of each value, in the structure of a batch."""
        return self._weighted(self.parser.specs, ElementSpec((), "float32"))

    def batches_ahead(self, threads: int) -> int:
        """Batches that are in progress while the caller has one."""
        parts = -(-self.share // self.parser.part_records)
        ahead = max(_BATCHES_AHEAD, -(-_PARTS_AHEAD * threads // parts))
        shape = (self.share, *self.parser.element_shape)
        if self.options.ram_budget is not None and None not in shape:
            size = math.prod(side or 1 for side in shape) * _item_bytes(self.parser.element_dtype)
            ahead = min(ahead, max(1, self.options.ram_budget // size))
        return ahead

    def start(self, decoders: ThreadPoolExecutor, pieces: list[_BatchPiece]) -> _Batch:
        """Has the parts of a batch decoded."""
        size, step = sum(piece.end - piece.begin for piece in pieces), self.parser.part_records
        memory = self.parser.start(size)
        parts = []
        for piece in pieces:
            for begin in range(piece.begin, piece.end, step):
                part = piece._replace(
                    begin=begin,
                    end=min(begin + step, piece.end),
                    place=piece.place + begin - piece.begin,
                )
                parts.append(decoders.submit(_decode, part, memory))
        return _Batch(memory, parts)

    def joined(self, decoders: ThreadPoolExecutor, batch: _Batch) -> Callable[[], Any]:
        """What waits for a batch and returns it."""
        if not self.parser.mixes:
            return functools.partial(self._join, batch)
        # All parts are with threads before one takes this, so none can wait for it in turn.
        return decoders.submit(self._join, batch).result

    def _join(self, batch: _Batch) -> Any:
        parts, weights = zip(*(part.result() for part in batch.parts), strict=True)
        of_batch = np.concatenate(weights)
        kept = None
        if self.options.remainder != "pad" and (of_batch == LOST).any():
            kept = of_batch != LOST
        joined = self.parser.join(batch.memory, list(parts), kept)
        return self._weighted(joined, np.maximum(of_batch, np.float32(0)))

    def _weighted(self, batch: Any, weights: Any) -> Any:
        """The batch with weights, 0 for records that fill it up, if the stream has such."""
        if self.options.remainder != "pad":
            return batch
        if self.parser.targets == "none":
            return batch, weights
        if len(batch) == 2:
            return (*batch, weights)
        inputs, targets, own = batch
        if isinstance(own, ElementSpec):
            return batch
        return inputs, targets, own * weights.reshape(-1, *[1] * (own.ndim - 1))


def load_batches(
    sources: Sequence[tuple[BatchLoader, Iterable[Task]]],
    turns: Iterator[list[tuple[int, int]]],
    worker: tuple[int, int],
) -> Iterator[Any]:
    """The batches of one split, or of a mixture of several.

    Args:
        sources: The splits, and what is read of each.
        turns: The splits of each batch by number, and how many records it has of them.
        worker: (i, n): every nth of these batches alone, from the ith on.

    Raises:
        ShardSetError: A shard cannot be read.
        DamageError: A record is damaged.
    """
    loader = sources[0][0]
    threads = loader.options.threads or math.ceil(usable_cores())
    reading = sum(source.windows.ahead for source, _ in sources)
    decoders = ThreadPoolExecutor(threads, thread_name_prefix="shardmill-decode")
    readers = ThreadPoolExecutor(reading, thread_name_prefix="shardmill-read")
    records = []
    for number, (source, tasks) in enumerate(sources):
        if worker != (0, 1):
            turns, own = itertools.tee(turns)
            tasks = _of_every_nth(tasks, own, number, *worker)
        records.append(_SplitRecords(source, readers, tasks))
    ahead, started = loader.batches_ahead(threads), deque[Callable[[], Any]]()
    try:
        for turn in itertools.islice(turns, worker[0], None, worker[1]):
            pieces: list[_BatchPiece] = []
            for number, count in turn:
                pieces += records[number].take(count, sum(p.end - p.begin for p in pieces))
            size = sum(piece.end - piece.begin for piece in pieces)
            is_last = size < loader.share
            if size and (not is_last or loader.options.remainder == "keep"):
                batch = loader.start(decoders, pieces)
                started.append(loader.joined(decoders, batch))
            if is_last:
                break
            if len(started) > ahead:
                yield started.popleft()()
        while started:
            yield started.popleft()()
    finally:
        decoders.shutdown(wait=False, cancel_futures=True)
        readers.shutdown(wait=False, cancel_futures=True)


def _of_every_nth(
    tasks: Iterable[Task], turns: Iterable[list[tuple[int, int]]], split: int, first: int, step: int
) -> Iterator[Task]:
    """The tasks of a split for every nth batch: parts of others."""
    sizes = (sum(count for number, count in turn if number == split) for turn in turns)
    batches, batch, left = enumerate(sizes), -1, 0
    for task in tasks:
        begin = 0
        while begin < task.take:
            while not left:
                batch, left = next(batches, (-1, -1))
            if left < 0:
                return
            taken = min(left, task.take - begin)
            if batch % step == first:
                yield task._replace(skip=task.skip + begin, take=taken)
            begin, left = begin + taken, left - taken


class _SplitRecords:
    """The records of a split in order, whose windows are on their way.

    Args:
        loader: The split.
        readers: Threads that read windows.
        tasks: What to read.
    """

    def __init__(
        self, loader: BatchLoader, readers: ThreadPoolExecutor, tasks: Iterable[Task]
    ) -> None:
        self._loader, self._readers, self._tasks = loader, readers, iter(tasks)
        self._windows: deque[tuple[Future[WindowRows], int]] = deque()
        self._begin = 0  # in the first window

    def take(self, count: int, place: int) -> Iterator[_BatchPiece]:
        """The next records, or those that are left, at a place of a batch."""
        while count and self._read_ahead():
            window, size = self._windows[0]
            end = min(size, self._begin + count)
            yield _BatchPiece(self._loader.parser, window, self._begin, end, place)
            count, place = count - (end - self._begin), place + end - self._begin
            self._begin = end
            if end == size:
                self._windows.popleft()
                self._begin = 0

    def _read_ahead(self) -> bool:
        """Has windows read; whether there is one."""
        missing = 1 + self._loader.windows.ahead - len(self._windows)
        for task in itertools.islice(self._tasks, missing):
            read = self._readers.submit(self._loader.windows.read, task)
            self._windows.append((read, task.take))
        return bool(self._windows)


def _decode(piece: _BatchPiece, memory: Any) -> tuple[Any, Any]:
    rows = piece.window.result().take(piece.begin, piece.end)
    return piece.parser.decode(rows, memory, piece.place), rows.weights


class _Batch(NamedTuple):
    """A batch in progress.

    Attributes:
        memory: What its parser started.
        parts: Its parts in order, and the weights of their records.
    """

    memory: Any
    parts: list[Future[tuple[Any, Any]]]


def _item_bytes(dtype: str) -> int:
    return np.dtype(dtype).itemsize if dtype != "string" else 1
