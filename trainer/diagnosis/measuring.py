"""Opens a training like a run, and measures it and its step; nothing is written."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any

import psutil
import tensorflow as tf

from foundation.errors import UsageError
from reader.profiling.clock import Clock, Elapsed
from reader.profiling.sampled_loader import sampled_loader
from reader.tensorflow_dataset import dataset_of
from trainer import precision
from trainer.data import open_data, require_batch
from trainer.devices import configure_devices
from trainer.loop import Loop, Totals
from trainer.options import Settings, TrainOptions
from trainer.strategies import SEVERAL_WORKERS
from trainer.train_state import make_train_state

_WARM_UP = 0.5  # of the time that is measured: tracing, and tf.data's search for its threads
_LEAST_WINDOWS = 4
_LONGEST = 5  # times the time that is wanted, if fewer windows have come by then
_VARIED_BATCHES = 64  # of documents, whose lengths differ
_ALIKE_BATCHES = 8
_KEPT_BYTES = 256 << 20  # 256 MiB of batches at most
_COPIES = 20


@dataclasses.dataclass(frozen=True)
class Job:
    """A training that is measured.

    Attributes:
        options: Options of the training, none left open.
        policy: The Keras dtype policy.
        stream: The training stream; a `reader.Stream`.
        loop: Training loop of the model.
    """

    options: Settings
    policy: str
    stream: Any
    loop: Loop


def open_job(asked: TrainOptions) -> Job:
    """Opens the training of some options; nothing is written.

    Raises:
        UsageError: The options contradict each other, the data set or the machine.
        ShardSetError: There is no shard set in `asked.data`.
    """
    if asked.strategy in {*SEVERAL_WORKERS, "pipeline", "tpu"}:
        raise UsageError(
            f"shardmill doctor does not measure --strategy {asked.strategy}: it looks at one "
            "process. Leave it out, or pass --strategy mirrored."
        )
    configure_devices(asked)
    data = open_data(asked)
    options = asked.settled(data.kind)
    policy = precision.resolve(options.precision, options.strategy)
    stream = data.open_training(None)
    require_batch(stream.info.records, options)
    state = make_train_state(options, policy, stream.steps_per_epoch, data)
    return Job(options, policy, stream, state.loop)


@dataclasses.dataclass(frozen=True)
class TrainingTimes:
    """Times of a short training.

    Attributes:
        examples: Number of examples trained on.
        seconds: Duration in seconds.
        cpu_seconds: CPU time of the process per example.
        read_bytes: Bytes per example that came from storage, not from the page cache; 0 if the
            system does not count them.
        alone_seconds: Estimated duration without other programs on the machine.
        others_cores: Number of cores that other programs kept busy.
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
    """Times of a training step, in seconds per example.

    Attributes:
        seconds: Time on the device, with the data on it.
        cpu_seconds: CPU time of the process.
        copy_seconds: Time to copy an example to the device; 0 if the device is the CPU.
    """

    seconds: float
    cpu_seconds: float
    copy_seconds: float


def measure_training(job: Job, seconds: float) -> TrainingTimes:
    """Measures a training for some seconds after a warm-up, with all stages at work."""
    batches = iter(job.loop.distribute(job.stream.dataset))
    least_steps = 0
    if job.stream.info.cache != "memory":
        # From files, records come by windows: a window's worth of steps at once, then a pause.
        geometry = job.stream.opened.loader.windows.worker_shard.geometry
        window = min(geometry.window_records, geometry.records)
        least_steps = _LEAST_WINDOWS * window // job.options.batch_size
    return _measure(job.loop, batches, job.options.batch_size, seconds, least_steps)


def measure_step(job: Job, seconds: float) -> StepTimes:
    """Measures the steps on batches of the stream that were made beforehand."""
    loop = job.loop
    sampled = sampled_loader(job.stream)
    dataset = dataset_of(lambda: sampled.batches(0, 0), sampled, -1)
    copy_seconds = 0.0
    gpus = tf.config.list_logical_devices("GPU")
    if gpus and _has_static_shapes(dataset):
        if len(gpus) == 1 or job.options.strategy == "default":
            batch = next(iter(dataset))
            copy_seconds = _copy_seconds(batch, gpus[0].name) / job.options.batch_size
            batches: Any = _RepeatedBatch(_copied(batch, gpus[0].name))
        else:
            batches = _RepeatedBatch(next(iter(loop.distribute(dataset))))
    else:
        kept = dataset.take(_num_kept(dataset)).cache()
        for _ in kept:  # fills the cache
            pass
        batches = iter(loop.distribute(kept.repeat()))
    times = _measure(loop, batches, job.options.batch_size, seconds)
    return StepTimes(times.alone_seconds / times.examples, times.cpu_seconds, copy_seconds)


class _RepeatedBatch:
    """An endless iterator of one batch, which is part of the graph, on its device."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __next__(self) -> Any:
        return self._batch


class _EnoughError(Exception):
    """Ends a training that was measured long enough."""


class _Stopwatch:
    """Starts after the warm-up, and ends the training after the measured time."""

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
    watch = _Stopwatch(seconds, least_steps)
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
    """Bytes that the process has read from storage; 0 if the system does not count them."""
    try:
        return int(psutil.Process().io_counters().read_bytes)
    except (AttributeError, psutil.Error, OSError):  # macOS counts none; a container may hide them
        return 0


def _has_static_shapes(dataset: Any) -> bool:
    return all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(dataset.element_spec))


def _num_kept(dataset: Any) -> int:
    if not _has_static_shapes(dataset):
        return _VARIED_BATCHES
    specs = tf.nest.flatten(dataset.element_spec)
    size = sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
    return int(max(1, min(_ALIKE_BATCHES, _KEPT_BYTES // size)))


def _copied(batch: Any, device: str) -> Any:
    with tf.device(device):
        return tf.nest.map_structure(tf.identity, batch)


def _copy_seconds(batch: Any, device: str) -> float:
    """Seconds to copy a batch to a device, until it has arrived."""

    def copy() -> None:
        for value in tf.nest.flatten(_copied(batch, device)):
            tf.reshape(value, [-1])[:1].numpy()

    copy()
    begin = time.perf_counter()
    for _ in range(_COPIES):
        copy()
    return (time.perf_counter() - begin) / _COPIES
