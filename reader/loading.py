"""`load`: from a directory and options to a stream of batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from foundation.options import described
from foundation.storage import absolute, local_path, place_of
from reader.lazy_tensorflow import tf
from reader.opening import Opened, open_split
from reader.options import (
    REQUIRED,
    WHERE,
    Directory,
    OnCached,
    PathLike,
    ReadOptions,
    ignore_progress,
)
from reader.service.address import Address, check_answers, check_directory, parse_address
from reader.state import check_generation, order_of, read_state
from reader.stream import Stream
from reader.transforms.augmentation import Augment
from shard_format import UsageError

if TYPE_CHECKING:
    from reader.graph.pipeline import InputPipeline


@dataclasses.dataclass(eq=False, kw_only=True)
class LoadedStream(Stream):
    """Batches of one split.

    Attributes:
        opened: The split.
        options: How it was opened, for those who open it again to measure it.
        directory: What it was opened from, for the same: of a set at a URL that URL, where
            `info.directory` holds copies of its small files.
        address: Address of a service that makes the batches, or None.
    """

    opened: Opened = dataclasses.field(repr=False)
    options: ReadOptions = dataclasses.field(repr=False)
    directory: Directory = dataclasses.field(repr=False)
    address: Address | None = None

    @property
    def pipeline(self) -> InputPipeline:
        """Input pipeline of the batches in TensorFlow."""
        return self.opened.pipeline

    @override
    def _make_dataset(self) -> tf.data.Dataset:
        from reader.graph.pipeline import build_dataset, without_autograph
        from reader.tensorflow_dataset import dataset_of

        batches = -1 if self._last_step is None else len(self)
        loader, first = self.opened.loader, self.first_step
        if not loader.parser.needs_tensorflow:
            return dataset_of(lambda: self.arrays(first), loader, batches)
        position = self.start.step * self.info.batch_size
        return without_autograph(build_dataset)(self.pipeline, self.start.epoch, position, batches)

    @override
    def arrays(self, first: int, worker: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        loader = self.opened.loader
        if loader.parser.needs_tensorflow:
            return super().arrays(first, worker)
        epoch, step = divmod(first, self.steps_per_epoch)
        return loader.batches(epoch, step * self.info.batch_size, worker)

    @override
    def __reduce__(self) -> Any:
        return _open_at, (absolute(str(self.directory)), self.options, self.state_after(0))

    def numbered(self, epoch: Any, begin: Any, end: Any) -> tf.data.Dataset:
        """The batches with the numbers [begin, end) of an epoch, in order, as a data set.

        Inside a tf.function the numbers may be tensors, and the data set is made wherever the graph
        runs: any process that sees the set under the same path has any part of any epoch.

        Args:
            epoch: Scalar int64.
            begin: Scalar int64.
            end: Scalar int64, above `begin`, at most `steps_per_epoch`.

        Raises:
            UsageError: The stream is cached, is of a set at a URL, or skips damage.
        """
        from reader.graph.pipeline import without_autograph

        return without_autograph(self._numbered)(epoch, begin, end)

    def _numbered(self, epoch: Any, begin: Any, end: Any) -> tf.data.Dataset:
        from reader.graph.pipeline import finished, without_rewrites

        if self.options.on_corrupt == "skip":
            raise UsageError(
                "on_corrupt='skip' does not work where a graph reads the set in another process, "
                "in Stream.numbered. Read with on_corrupt='raise'."
            )
        if local_path(place_of(self.directory)) is None or self.info.cache != "off":
            raise UsageError(
                f"{self.directory} with cache={self.info.cache!r} is read through "
                "this process, so that a graph cannot read it elsewhere in Stream.numbered. Read "
                "one set in a directory, with cache='off'."
            )
        dataset = self.pipeline.numbered(epoch, begin, end)
        return finished(dataset, end - begin, self.options).with_options(without_rewrites())


class ServedStream(LoadedStream):
    """Batches from a service, which come in the order of their arrival within an epoch."""

    @override
    def _make_dataset(self) -> tf.data.Dataset:
        from reader.graph.pipeline import without_autograph
        from reader.service.client import build_served

        batches = -1 if self._last_step is None else len(self)
        return without_autograph(build_served)(
            self.pipeline, self.address, self.steps_per_epoch, self.start, batches
        )

    @override
    def arrays(self, first: int, worker: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        return Stream.arrays(self, first, worker)

    @override
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


def load(
    directory: Directory,
    *,
    split: str = "train",
    generation: int | None = None,
    batch_size: int = REQUIRED,
    shuffle: str = "window",
    seed: int = 0,
    epochs: int | None = None,
    remainder: str | None = None,
    on_corrupt: str = "raise",
    worker: tuple[int, int] = (0, 1),
    state: Mapping[str, Any] | None = None,
    streams: int | None = None,
    where: str | None = None,
    sample: str | Mapping[str, float] | None = None,
    buckets: int = 1,
    image_size: int | None = None,
    decode: bool = True,
    augment: Augment = "none",
    label: str | tuple[str, ...] | None = None,
    features: tuple[str, ...] = (),
    min_visible: float = 0.0,
    list_size: int | None = None,
    dtype: str = "uint8",
    normalize: str = "none",
    max_tokens: int | None = None,
    pad: str = "longest",
    segments: bool = True,
    synonyms: PathLike | None = None,
    cache: str = "auto",
    cache_dir: PathLike | None = None,
    cache_stage: str = "stored",
    cache_limit: int | str | None = None,
    on_cached: OnCached = ignore_progress,
    threads: int | None = None,
    ram_budget: int | None = None,
    service: str | None = None,
) -> Stream:
    """A stream over one split of a shard set, for `model.fit` or any loop over tf.data.

    Training: `load(d, batch_size=128, image_size=224, augment="standard")`, endless, and
    `model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=...)`.
    Evaluation: `load(d, split="test", batch_size=128, image_size=224, shuffle="off", epochs=1)`.

    The batches depend on the set (`info.record_type`):

        image    (images [batch, height, width, 3] uint8 or float32, labels); see decode
        text     (texts [batch] string, labels)
        tokens   (ids [batch, length] int64, labels); see max_tokens, pad and buckets
        packed   ({"tokens", "segments", "positions"}: [batch, N - 1] int64 each, targets
                 [batch, N - 1] int64, weights [batch, N - 1] float32); the targets are the next
                 tokens, the weights 0 where the target is padding or of another document. A model
                 must attend within a segment only; see segments

    Labels are [batch] int64, or [batch, num_classes] float32 of zeros and ones where a record has
    any number of them; the batches of a set without labels are the inputs alone. Where `augment`
    mixes records, labels are [batch, num_classes] float32 too, the shares of the classes. With
    several names in `label` they are a dictionary by name, and with `features` the inputs are one,
    see docs/reading.md.

    A damaged record ends the iteration with a tf.errors.UnknownError that names file, byte offset
    and record id; so does a file that cannot be read. `numpy()` and `torch()` raise it as a
    DamageError or ShardSetError. With cache="memory", and where images are cached decoded, every
    byte is read here, and damage is a DamageError of this call. Workers of a service raise
    tf.errors.DataLossError, without the file.
    """
    options = ReadOptions(
        split=split,
        generation=generation,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=seed,
        epochs=epochs,
        remainder=remainder,
        on_corrupt=on_corrupt,
        worker=worker,
        state=state,
        streams=streams,
        where=where,
        sample=sample,
        buckets=buckets,
        image_size=image_size,
        decode=decode,
        augment=augment,
        label=label,
        features=features,
        min_visible=min_visible,
        list_size=list_size,
        dtype=dtype,
        normalize=normalize,
        max_tokens=max_tokens,
        pad=pad,
        segments=segments,
        synonyms=synonyms,
        cache=cache,
        cache_dir=cache_dir,
        cache_stage=cache_stage,
        cache_limit=cache_limit,
        on_cached=on_cached,
        threads=threads,
        ram_budget=ram_budget,
        service=service,
    )
    return open_stream(directory, options)


load.__doc__ = f"""{load.__doc__}
    Args:
        directory: The shard set, or its URL: s3://, gs://, abfs:// or hdfs://. The manifest and
            the index of a set at a URL are copied to cache_dir; what is not copied is read over the
            network, a chunk of up to 4 MiB a request, ahead of use.
{described(ReadOptions)}

    Raises:
        UsageError: An option is wrong, or does not fit the set, or no service answers.
        ShardSetError: There is no shard set, or this version cannot read it.
        DamageError: The set is not what its manifest says.
    """


def open_stream(directory: Directory, options: ReadOptions) -> LoadedStream:
    """The stream of `load`.

    Raises:
        UsageError: An option does not fit the set, or no service answers.
        ShardSetError: There is no shard set, or this version cannot read it.
        DamageError: The set is not what its manifest says.
    """
    address = None
    if options.service is not None:
        check_directory(directory)
        address = parse_address(options.service, WHERE)
        check_answers(address, WHERE)
    opened = open_split(directory, options)
    order = order_of(opened.info.root_hash, options)
    check_generation(options.state, opened.earlier)
    kind = LoadedStream if address is None else ServedStream
    stream = kind(
        steps_per_epoch=opened.steps_per_epoch,
        info=opened.info,
        order=order,
        start=read_state(options.state, order, opened.steps_per_epoch, options.epochs),
        copies=opened.copies,
        losses=(opened.skipped,),
        opened=opened,
        options=options,
        directory=directory,
        address=address,
    )
    if opened.loader.parser.needs_tensorflow:
        _ = stream.dataset  # a transform that is wrong is reported here
    return stream


def _open_at(directory: Directory, options: ReadOptions, state: dict[str, Any]) -> LoadedStream:
    """A stream in another process than it was loaded in."""
    return open_stream(directory, dataclasses.replace(options, state=state))
