"""Batches in NumPy: windows are read ahead, and the parts of batches decoded by threads.

What a batch consists of follows from the tasks alone, before anything is read. So a batch is handed
out to threads as parts of windows that are on their way, and several batches are in progress while
the caller has one.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Iterable, Iterator
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
        window: The records of the window, which may be on their way.
        begin: First of them.
        end: One behind the last.
        place: Place of the first in the batch.
    """

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
        return self._loaded(tasks if worker == (0, 1) else self._every_nth(tasks, *worker))

    def _every_nth(self, tasks: Iterable[Task], first: int, step: int) -> Iterator[Task]:
        """The tasks of every nth batch: parts of others."""
        number = size = 0  # of the batch, and its records so far
        for task in tasks:
            begin = 0
            while begin < task.take:
                taken = min(self.share - size, task.take - begin)
                if number % step == first:
                    yield task._replace(skip=task.skip + begin, take=taken)
                begin, size = begin + taken, size + taken
                if size == self.share:
                    number, size = number + 1, 0

    def numbered(self, epoch: int, begin: int, end: int) -> Iterator[Any]:
        """The batches with the numbers [begin, end) of an epoch, in order; see `batches`."""
        size = self.options.batch_size
        return self._loaded(self.windows.of_epoch(epoch, begin * size, end * size))

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

    def _loaded(self, tasks: Iterable[Task]) -> Iterator[Any]:
        threads = self.options.threads or math.ceil(usable_cores())
        decoders = ThreadPoolExecutor(threads, thread_name_prefix="shardmill-decode")
        readers = ThreadPoolExecutor(self.windows.ahead, thread_name_prefix="shardmill-read")
        ahead = self._batches_ahead(threads)
        started: deque[_Batch] = deque()
        try:
            for pieces in self._cut(self._reading(readers, tasks)):
                started.append(self._start(decoders, pieces))
                if len(started) > ahead:
                    yield self._join(started.popleft())
            while started:
                yield self._join(started.popleft())
        finally:
            decoders.shutdown(wait=False, cancel_futures=True)
            readers.shutdown(wait=False, cancel_futures=True)

    def _batches_ahead(self, threads: int) -> int:
        parts = -(-self.share // self.parser.part_records)
        ahead = max(_BATCHES_AHEAD, -(-_PARTS_AHEAD * threads // parts))
        shape = (self.share, *self.parser.element_shape)
        if self.options.ram_budget is not None and None not in shape:
            size = math.prod(side or 1 for side in shape) * _item_bytes(self.parser.element_dtype)
            ahead = min(ahead, max(1, self.options.ram_budget // size))
        return ahead

    def _reading(
        self, readers: ThreadPoolExecutor, tasks: Iterable[Task]
    ) -> Iterator[tuple[Future[WindowRows], int]]:
        """The records of each task, on their way, and how many they are."""
        waiting: deque[tuple[Future[WindowRows], int]] = deque()
        for task in tasks:
            waiting.append((readers.submit(self.windows.read, task), task.take))
            if len(waiting) > self.windows.ahead:
                yield waiting.popleft()
        yield from waiting

    def _cut(
        self, windows: Iterable[tuple[Future[WindowRows], int]]
    ) -> Iterator[list[_BatchPiece]]:
        """The pieces of windows that each batch consists of."""
        pieces: list[_BatchPiece] = []
        size = 0
        for window, records in windows:
            begin = 0
            while begin < records:
                taken = min(self.share - size, records - begin)
                pieces.append(_BatchPiece(window, begin, begin + taken, size))
                begin, size = begin + taken, size + taken
                if size == self.share:
                    yield pieces
                    pieces, size = [], 0
        if pieces and self.options.remainder == "keep":
            yield pieces

    def _start(self, decoders: ThreadPoolExecutor, pieces: list[_BatchPiece]) -> _Batch:
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
                parts.append(decoders.submit(self._decode, part, memory))
        return _Batch(memory, parts)

    def _decode(self, piece: _BatchPiece, memory: Any) -> tuple[Any, Any]:
        rows = piece.window.result().take(piece.begin, piece.end)
        return self.parser.decode(rows, memory, piece.place), rows.weights

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
