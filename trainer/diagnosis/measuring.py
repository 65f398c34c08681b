"""The clock and the counters: a short training, and its step with data that is there already."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any

import psutil
import tensorflow as tf

from reader.profiling.clock import Clock, Elapsed
from reader.profiling.sampled_pipeline import dataset_of, sampled_pipeline, window_records
from trainer.diagnosis.job import Job
from trainer.loop import Loop, Totals

_WARM_UP = 0.5  # of the time that is measured: tracing, and tf.data's search for its threads
_LEAST_WINDOWS = 4
_LONGEST = 5  # times the time that is wanted, if fewer windows have come by then
_VARIED_BATCHES = 64  # of documents, whose lengths differ
_ALIKE_BATCHES = 8
_KEPT_BYTES = 256 << 20  # 256 MiB of batches at most
_COPIES = 20


@dataclasses.dataclass(frozen=True)
class TrainingTimes:
    """What was measured of a short training.

    Attributes:
        examples: Number of examples that were learnt from.
        seconds: Seconds that it took.
        cpu_seconds: CPU time of the process per example.
        read_bytes: Bytes that came from storage, not from the page cache, per example; 0 where the
            system does not count them.
        alone_seconds: Seconds that it would have taken on a machine without other programs.
        others_cores: Number of cores that those kept busy meanwhile.
    """

    examples: int
    seconds: float
    cpu_seconds: float
    read_bytes: float
    alone_seconds: float
    others_cores: float

    @property
    def rate(self) -> float:
        """Examples per second."""
        return self.examples / self.seconds


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """What a training step takes, in seconds per example.

    Attributes:
        seconds: Seconds on the device, the data being there.
        cpu_seconds: CPU time of the process.
        copy_seconds: Seconds to bring an example to the device; 0 where that is the CPU.
    """

    seconds: float
    cpu_seconds: float
    copy_seconds: float


def measure_training(job: Job, seconds: float) -> TrainingTimes:
    """A real training for some seconds after a warm-up: all stages at work."""
    loop = job.learner.loop
    batches = iter(loop.distribute(job.stream.dataset))
    # From files, records come by windows: a window's worth of steps at once, then a pause.
    windows = 0 if job.stream.info.cache == "memory" else _LEAST_WINDOWS
    least_steps = windows * window_records(job.stream) // job.options.batch_size
    return _measure(loop, batches, job.options.batch_size, seconds, least_steps)


def measure_step(job: Job, seconds: float) -> StepTimes:
    """The same steps on batches of the stream that were made beforehand, again and again."""
    loop = job.learner.loop
    dataset = dataset_of(sampled_pipeline(job.stream))
    copy_seconds = 0.0
    gpus = tf.config.list_logical_devices("GPU")
    if gpus and _alike(dataset):
        if len(gpus) == 1 or job.options.strategy == "default":
            batch = next(iter(dataset))
            copy_seconds = _copy_seconds(batch, gpus[0].name) / job.options.batch_size
            batches: Any = _Again(_copied(batch, gpus[0].name))
        else:
            batches = _Again(next(iter(loop.distribute(dataset))))
    else:
        kept = dataset.take(_num_kept(dataset)).cache()
        for _ in kept:  # fills the cache
            pass
        batches = iter(loop.distribute(kept.repeat()))
    times = _measure(loop, batches, job.options.batch_size, seconds)
    return StepTimes(times.alone_seconds / times.examples, times.cpu_seconds, copy_seconds)


class _Again:
    """An iterator that gives the same batch for ever; it is part of the graph, on its device."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __next__(self) -> Any:
        return self._batch


class _EnoughError(Exception):
    """Raised out of a training that is to go no further."""


class _Watch:
    """Starts after the warm-up, ends the training after what is to be measured."""

    def __init__(self, seconds: float, least_steps: int) -> None:
        self._seconds, self._least_steps = seconds, least_steps
        self._start = time.perf_counter()
        self._clock: Clock | None = None
        self._first_step = self._first_bytes = self.steps = self.read_bytes = 0
        self.elapsed = Elapsed(0.0, 0.0, 0.0)

    def __call__(self, step: int, totals: Totals) -> None:
        if self._clock is None:
            if time.perf_counter() - self._start >= _WARM_UP * self._seconds:
                self._first_step, self._first_bytes = step, _read_bytes()
                self._clock = Clock()
            return
        self.elapsed = self._clock.elapsed()
        self.steps = step - self._first_step
        wanted = self.steps >= self._least_steps or self.elapsed.seconds >= _LONGEST * self._seconds
        if self.elapsed.seconds >= self._seconds and wanted:
            self.read_bytes = _read_bytes() - self._first_bytes
            raise _EnoughError


def _measure(
    loop: Loop, batches: Any, batch_size: int, seconds: float, least_steps: int = 0
) -> TrainingTimes:
    watch = _Watch(seconds, least_steps)
    try:
        loop.train(batches, sys.maxsize, watch)
    except _EnoughError:
        pass
    examples, elapsed = watch.steps * batch_size, watch.elapsed
    return TrainingTimes(
        examples=examples,
        seconds=elapsed.seconds,
        cpu_seconds=elapsed.cpu_seconds / examples,
        read_bytes=watch.read_bytes / examples,
        alone_seconds=elapsed.alone_seconds,
        others_cores=elapsed.others_cores,
    )


def _read_bytes() -> int:
    """Bytes that the process has had from storage; 0 where the system does not count them."""
    try:
        return int(psutil.Process().io_counters().read_bytes)
    except (AttributeError, psutil.Error, OSError):  # macOS counts none; a container may hide them
        return 0


def _alike(dataset: Any) -> bool:
    return all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(dataset.element_spec))


def _num_kept(dataset: Any) -> int:
    if not _alike(dataset):
        return _VARIED_BATCHES
    specs = tf.nest.flatten(dataset.element_spec)
    size = sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
    return int(max(1, min(_ALIKE_BATCHES, _KEPT_BYTES // size)))


def _copied(batch: Any, device: str) -> Any:
    with tf.device(device):
        return tf.nest.map_structure(tf.identity, batch)


def _copy_seconds(batch: Any, device: str) -> float:
    """Seconds to copy a batch to a device, and to know that it is there."""

    def copy() -> None:
        for value in tf.nest.flatten(_copied(batch, device)):
            tf.reshape(value, [-1])[:1].numpy()

    copy()
    begin = time.perf_counter()
    for _ in range(_COPIES):
        copy()
    return (time.perf_counter() - begin) / _COPIES
