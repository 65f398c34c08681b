"""Streams, the result of `load` and `mix`: batches, their description, and the state."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foundation.extras import naming_extras
from reader.batches import NumpyBatches, read_batches, to_arrays
from reader.cache.choosing import CacheChoice
from reader.cache.copying import Copies
from reader.damage import SkippedRecords
from reader.lazy_tensorflow import tf
from reader.options import ReadOptions, kind_of
from reader.record_types import Parser, TokenInfo
from reader.record_types.features import TargetLabels
from reader.records.open_split import OpenSplit
from reader.state import Position, make_state, read_state
from reader.transforms.normalization import Normalization
from shard_format import UsageError

if TYPE_CHECKING:
    from reader.grain_batches import GrainBatches
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
        records: Records of the split, or those of it that `where` selects.
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


@dataclasses.dataclass(eq=False, kw_only=True)
class Stream(abc.ABC):
    """A split as batches: (inputs [batch, ...], targets [batch, ...]).

    The batches of a set without labels are the inputs alone, those of packed sequences (inputs,
    targets, weights). Iterating over a stream gives them as NumPy arrays, see `numpy`.

    Attributes:
        steps_per_epoch: Batches in one pass over the split.
        info: Describes the stream.
        order: Parameters of the order, which a state must agree with.
        start: Where the batches begin: after so many epochs and steps.
        copies: What is being copied to local disk while it is read from its source, a part for each
            set of a mixture: see `copied_bytes`, `total_bytes`, `wait()` and `stop()` of it.
        losses: The damaged records that were skipped, of each set of a mixture.
    """

    steps_per_epoch: int
    info: StreamInfo
    order: Mapping[str, Any]
    start: Position
    copies: tuple[Copies, ...]
    losses: tuple[SkippedRecords, ...] = dataclasses.field(default=(), repr=False)
    _taken: int | None = dataclasses.field(default=None, init=False, repr=False)

    @functools.cached_property
    def dataset(self) -> tf.data.Dataset:
        """The batches as a tf.data.Dataset; its first use loads TensorFlow. See `load`.

        Raises:
            MissingExtraError: TensorFlow is not installed.
        """
        # On the CPU even where there is a GPU: tf.data runs there, and tensors would be copied
        # twice.
        with naming_extras(), tf.device("/CPU:0"):
            return self._make_dataset()

    @abc.abstractmethod
    def _make_dataset(self) -> tf.data.Dataset: ...

    def arrays(self, first: int, worker: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        """The batches from a global step on as NumPy arrays.

        Args:
            first: Number of the first, counted from the first epoch.
            worker: (i, n): every nth of them alone, from the ith on.

        Raises:
            DamageError: A record is damaged; names file, byte offset and record id.
            ShardSetError: A shard is missing, or cannot be read.
        """
        if first != self.first_step or worker != (0, 1):
            raise UsageError(
                f"A DataLoader with num_workers={worker[1]} cannot read this stream: its batches "
                "come from one iterator of TensorFlow, as those of a service, of a mixture and of "
                "transforms in TensorFlow do. Pass num_workers=0."
            )
        return map(to_arrays, read_batches(self.dataset))

    @property
    def element_dtype(self) -> str:
        """Element type of the inputs."""
        return self.info.dtype

    @property
    def first_step(self) -> int:
        """Steps that were done before the first batch; 0 where it was loaded without state."""
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
        if self._last_step is not None and step > self._last_step:
            raise UsageError(
                f"global_step={step} exceeds the {self._last_step} steps of all "
                "epochs of the stream in Stream.state. Pass the steps that were done."
            )
        return make_state(Position(*divmod(step, self.steps_per_epoch)), self.order)

    def state_dict(self) -> dict[str, Any]:
        """The `state` behind the last batch that was taken by iteration, of this or any view of it.

        The views are `numpy()`, `torch()` and `jax()`; what they have read ahead is not lost.

        Raises:
            UsageError: Batches were taken from `dataset`, which nobody counts.
        """
        if self._taken is None and "dataset" in vars(self):
            raise UsageError(
                "Nobody counts the batches that are taken from Stream.dataset, in "
                "Stream.state_dict. Pass the steps to Stream.state(global_step=...), or iterate "
                "over the stream."
            )
        return self.state_after(self._taken or 0)

    def state_after(self, steps: int) -> dict[str, Any]:
        """The state after so many batches, or after the last one where there are fewer."""
        step, last = self.first_step + steps, self._last_step
        return self.state(global_step=step if last is None else min(step, last))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a state: the next iteration, of this or any view of it, begins there.

        Raises:
            UsageError: It is no state of this stream: of another set, order or content, or beyond
                its end.
        """
        self.start = self._position_of(state)
        self._taken = None
        vars(self).pop("dataset", None)  # it begins elsewhere

    def step_of(self, state: Mapping[str, Any]) -> int:
        """The steps that were done at a state.

        Raises:
            UsageError: It is no state of this stream, as for `load_state_dict`.
        """
        position = self._position_of(state)
        return position.epoch * self.steps_per_epoch + position.step

    def _position_of(self, state: Mapping[str, Any]) -> Position:
        return read_state(state, self.order, self.steps_per_epoch, self.info.epochs)

    def __reduce__(self) -> Any:
        raise UsageError(
            f"A {type(self).__name__} cannot be sent to another process. Load it there."
        )

    def __iter__(self) -> Iterator[Any]:
        return self.counted(self.arrays(self.first_step))

    def counted(self, batches: Iterable[Any], first: int | None = None) -> Iterator[Any]:
        """Batches from a global step on, of which `state_dict` knows how many were taken.

        Args:
            batches: The batches.
            first: Number of the first; None where it is that of the stream.
        """
        before = 0 if first is None else first - self.first_step
        self._taken = before
        for number, batch in enumerate(batches, before + 1):
            self._taken = number
            yield batch

    def __len__(self) -> int:
        """Batches of all epochs, without those before `start`.

        Raises:
            TypeError: The stream is endless: what `len` raises of things without a length.
        """
        if self._last_step is None:
            raise TypeError("an endless stream has no length: it was loaded with epochs=None")
        return self._last_step - self.first_step

    @property
    def _last_step(self) -> int | None:
        epochs = self.info.epochs
        return None if epochs is None else self.steps_per_epoch * epochs

    def numpy(self) -> NumpyBatches:
        """The batches as NumPy arrays, to be iterated over any number of times."""
        return NumpyBatches(self)

    def torch(self, device: Any = None) -> TorchBatches:
        """The batches as PyTorch tensors: a torch.utils.data.IterableDataset.

        Args:
            device: Where tensors are put, such as "cuda"; None is the CPU.

        Raises:
            UsageError: PyTorch is not installed, or has no such device.
        """
        with _needing("torch", "PyTorch", "stream.torch()"):
            from reader.torch_batches import TorchBatches
        return TorchBatches(self, device)

    def grain(self) -> GrainBatches:
        """The batches as a grain.IterDataset of NumPy arrays, whose iterators have states.

        Raises:
            UsageError: Grain is not installed.
        """
        with _needing("grain", "Grain", "stream.grain()"):
            from reader.grain_batches import GrainBatches
        return GrainBatches(self)

    def jax(self, device: Any = None) -> Iterator[Any]:
        """The batches as JAX arrays: a generator, which `model.fit` of Keras takes too.

            for images, labels in stream.jax():
                state = train_step(state, images, labels)

        Whole numbers become int32 unless jax_enable_x64 is set, as JAX makes them.

        Args:
            device: A jax.Device or jax.sharding.Sharding to put arrays on; None is the default one.

        Raises:
            UsageError: JAX is not installed, or batches hold texts.
        """
        with _needing("jax", "JAX", "stream.jax()"):
            from reader.jax_batches import jax_batches
        return jax_batches(self, device)


@contextlib.contextmanager
def _needing(module: str, package: str, where: str) -> Iterator[None]:
    """Within this context, the error that a module is not there says what needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UsageError(
            f"{package} is not installed, which {where} needs. Install it with 'pip "
            f"install {module}', or use stream.numpy()."
        ) from error


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
        records=split.geometry.records,
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
