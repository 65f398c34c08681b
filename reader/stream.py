"""Streams, the result of `load` and `mix`: batches, their description, and the state."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from foundation.storage import local_path, place_of
from reader.batches import NumpyBatches
from reader.cache.choosing import CacheChoice
from reader.cache.copying import Copies
from reader.damage import SkippedRecords
from reader.options import Directory, ReadOptions
from reader.pipeline import InputPipeline, finished, without_autograph, without_rewrites
from reader.record_types import OpenSplit, Parser, TokenInfo, kind_of
from reader.record_types.features import TargetLabels
from reader.state import Position, make_state
from reader.transforms.normalization import Normalization
from shard_format import UsageError

if TYPE_CHECKING:
    from reader.torch_batches import TorchBatches


# The targets of a batch: one label a record [batch] int64; any number of them as
# [batch, num_classes] float32 of zeros and ones, or of values between them where records are mixed;
# of mixed records with one label each, the shares of the classes [batch, num_classes] float32,
# which add up to 1; several labels by name, each of them one of these; nothing (a batch is then no
# pair); or the next token at every position and its weight (a batch has then three parts).
TARGETS = ("label", "labels", "shares", "named", "none", "next_tokens")


@dataclasses.dataclass(frozen=True)
class StreamInfo:
    """Describes a stream.

    Attributes:
        directory: The shard set.
        root_hash: Names the content of the set.
        split: Name of the split.
        records: Records of the split.
        stored_bytes: Bytes of the split's shards.
        record_type: "image", "text", "tokens" or "packed".
        targets: One of `TARGETS`.
        class_names: The name of every label; of several labels by name, of the first one.
        labels: The class names of every label in the targets, by its name.
        features: Names of the further features that batches have.
        element_shape: Shape of one input, such as (224, 224, 3), or () for a text; None where it
            varies.
        dtype: Element type of the inputs.
        normalization: Normalization of the inputs, or None; an evaluation must use the same.
        tokens: Describes token ids; None for sets of images and raw text.
        batch_size: Records per batch, of all workers together.
        shuffle: One of `reader.options.SHUFFLES`.
        worker: (i, n): this stream gives the i-th of n equal parts of every batch.
        streams: Canonical streams; n may be any number that divides them.
        remainder: One of `reader.options.REMAINDERS`.
        seed: Seed of order and augmentation.
        epochs: Passes over the split; None is endless.
        cache: "off", "memory" or "disk".
        cache_stage: The form of cached records: as "stored", or with images "decoded".
        cache_reason: Why, and how much of the split, in a sentence.
    """

    directory: Path
    root_hash: str
    split: str
    records: int
    stored_bytes: int
    record_type: str
    targets: str
    class_names: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]
    features: tuple[str, ...]
    element_shape: tuple[int | None, ...]
    dtype: str
    normalization: Normalization | None
    tokens: TokenInfo | None
    batch_size: int
    shuffle: str
    worker: tuple[int, int]
    streams: int
    remainder: str
    seed: int
    epochs: int | None
    cache: str
    cache_stage: str
    cache_reason: str

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int | None, ...]:
        """`element_shape` of images: (height, width, 3), or (3, height, width) if asked for."""
        return self.element_shape


@dataclasses.dataclass(frozen=True)
class Stream:
    """A split as batches.

    Attributes:
        dataset: Batches (inputs [batch, ...], targets [batch, ...]), or inputs alone where the set
            has no labels; of packed sequences (inputs, targets, weights). See `load`.
        steps_per_epoch: Batches in one pass over the split.
        info: Describes the stream.
        order: Parameters of the order, which a state must agree with.
        start: Where the data set begins: after so many epochs and steps.
        copies: What is being copied to local disk while it is read from its source, a part for each
            set of a mixture: see `copied_bytes`, `total_bytes`, `wait()` and `stop()` of it.
        options: How it was opened, for those who open it again to measure it; None of a mixture.
        directory: What it was opened from, for the same: of a set at a URL that URL, where
            `info.directory` holds copies of its small files. None of a mixture.
        pipeline: Input pipeline that makes the data set. None of a mixture.
        losses: The damaged records that were skipped, of each set of a mixture.
    """

    dataset: tf.data.Dataset
    steps_per_epoch: int
    info: StreamInfo
    order: Mapping[str, Any]
    start: Position
    copies: tuple[Copies, ...]
    options: ReadOptions | None = dataclasses.field(default=None, repr=False, kw_only=True)
    directory: Directory | None = dataclasses.field(default=None, repr=False, kw_only=True)
    pipeline: InputPipeline | None = dataclasses.field(default=None, repr=False, kw_only=True)
    losses: tuple[SkippedRecords, ...] = dataclasses.field(default=(), repr=False, kw_only=True)

    @property
    def first_step(self) -> int:
        """Steps that were done before the data set begins; 0 where it was loaded without state."""
        return self.start.epoch * self.steps_per_epoch + self.start.step

    @property
    def skipped(self) -> int:
        """Damaged records that were skipped so far, each counted once; see on_corrupt of `load`.

        Batches that are prefetched count before they are taken, and every worker counts its own.
        """
        return sum(map(len, self.losses))

    def state(self, steps_done: Any = None, *, global_step: Any = None) -> dict[str, Any]:
        """Where the stream is after so many steps, to be stored with the weights.

        It is a dictionary of numbers and strings of less than 1 kB, the same for all workers, and
        depends on no buffer: what was prefetched and not trained on is read again.

        Args:
            steps_done: The same as `global_step`, for a stream that was loaded without a state.
            global_step: Steps of the whole training, counted from the beginning of its first
                stream: `first_step` and the batches taken from this data set.

        Raises:
            UsageError: The stream begins later or ends earlier, or it was resumed and `steps_done`
                does not say from where it counts.
        """
        step = _global_step(steps_done, global_step, self.first_step)
        epochs = self.info.epochs
        if epochs is not None and step > epochs * self.steps_per_epoch:
            raise UsageError(
                f"global_step={step} exceeds the {epochs * self.steps_per_epoch} steps of all "
                "epochs of the stream in Stream.state. Pass the steps that were done."
            )
        place = Position(*divmod(step, self.steps_per_epoch))
        return make_state(place, self.order)

    def numbered(self, epoch: Any, begin: Any, end: Any) -> tf.data.Dataset:
        """The batches with the numbers [begin, end) of an epoch, in order, as a data set.

        Inside a tf.function the numbers may be tensors, and the data set is made wherever the graph
        runs: any process that sees the set under the same path has any part of any epoch.

        Args:
            epoch: Scalar int64.
            begin: Scalar int64.
            end: Scalar int64, above `begin`, at most `steps_per_epoch`.

        Raises:
            UsageError: The stream is a mixture, is cached, is of a set at a URL, or skips damage.
        """
        if self.options is not None and self.options.on_corrupt == "skip":
            raise UsageError(
                "on_corrupt='skip' does not work where a graph reads the set in another process, "
                "in Stream.numbered. Read with on_corrupt='raise'."
            )
        place = None if self.directory is None else local_path(place_of(self.directory))
        if self.pipeline is None or place is None or self.info.cache != "off":
            raise UsageError(
                f"{self.directory or 'A mixture'} with cache={self.info.cache!r} is read through "
                "this process, so that a graph cannot read it elsewhere in Stream.numbered. Read "
                "one set in a directory, with cache='off'."
            )
        dataset = without_autograph(self.pipeline.numbered)(epoch, begin, end)
        return finished(dataset, end - begin, self.pipeline.options).with_options(
            without_rewrites()
        )

    @property
    def _num_batches(self) -> int | None:
        """Of all epochs, without those before the state that it began with; None for no end."""
        if self.info.epochs is None:
            return None
        return self.steps_per_epoch * self.info.epochs - self.first_step

    def numpy(self) -> NumpyBatches:
        """The batches as NumPy arrays, to be iterated over any number of times."""
        return NumpyBatches(self.dataset, self._num_batches)

    def torch(self, device: Any = None) -> TorchBatches:
        """The batches as PyTorch tensors: a torch.utils.data.IterableDataset.

        Args:
            device: Where tensors are put, such as "cuda"; None is the CPU.

        Raises:
            UsageError: PyTorch is not installed, or has no such device.
        """
        try:
            from reader.torch_batches import TorchBatches
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise UsageError(
                "PyTorch is not installed, which stream.torch() needs. Install it with 'pip "
                "install torch', or use stream.numpy()."
            ) from error
        return TorchBatches(self.dataset, self._num_batches, device)


class ServedStream(Stream):
    """Batches from a service, which come in the order of their arrival within an epoch."""

    def state(self, steps_done: Any = None, *, global_step: Any = None) -> dict[str, Any]:
        """The state of `Stream.state`; here it exists between two epochs only.

        Raises:
            UsageError: An epoch has begun and is not done, or as for `Stream.state`.
        """
        state = super().state(steps_done, global_step=global_step)
        if state["step"]:
            raise UsageError(
                f"Step {state['step']} is within an epoch of {self.steps_per_epoch} in "
                "Stream.state, where the order of a service's batches depends on its workers. Take "
                "the state after whole epochs, or load without service."
            )
        return state


def _global_step(steps_done: Any, global_step: Any, first_step: int) -> int:
    """Steps of the whole training as a Python number, from any whole number as an optimizer's.

    Raises:
        UsageError: See `Stream.state`.
    """
    name, value = "global_step", global_step
    if global_step is None or steps_done is not None:
        name, value = "steps_done", steps_done
        if first_step:
            raise UsageError(
                f"steps_done={steps_done!r} may count from the beginning of the training or from "
                f"step {first_step}, where this stream was resumed, in Stream.state. Pass "
                f"global_step={first_step} + the batches taken from this stream."
            )
    try:
        step = value.__index__()
    except (AttributeError, TypeError):
        step = -1
    if isinstance(value, bool) or step < first_step:
        raise UsageError(
            f"{name} is {value!r} in Stream.state, and the stream begins at step {first_step}. "
            "Pass the steps of the whole training that were done, an integer of at least "
            f"{first_step}."
        )
    return int(step)


def stream_info(
    split: OpenSplit,
    options: ReadOptions,
    parser: Parser,
    labels: TargetLabels,
    choice: CacheChoice,
) -> StreamInfo:
    """Describes a stream by its parser, options and cache."""
    stored = split.manifest.splits[options.split]
    class_names = {name: feature.class_names for name, feature in labels.features.items()}
    return StreamInfo(
        directory=split.root,
        root_hash=split.manifest.root_hash,
        split=options.split,
        records=stored.records,
        stored_bytes=stored.bytes,
        record_type=kind_of(split.schema),
        targets=parser.targets,
        class_names=next(iter(class_names.values()), ()),
        labels=class_names,
        features=options.features,
        element_shape=parser.element_shape,
        dtype=parser.element_dtype,
        normalization=parser.normalization,
        tokens=parser.tokens,
        batch_size=options.batch_size,
        shuffle=options.shuffle,
        worker=options.worker,
        streams=split.geometry.streams,
        remainder=str(options.remainder),
        seed=options.seed,
        epochs=options.epochs,
        cache=choice.cache,
        cache_stage=choice.stage,
        cache_reason=choice.reason,
    )
