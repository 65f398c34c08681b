"""`load`: from a directory and options to a stream of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from foundation.options import described
from reader.opening import open_split
from reader.options import (
    REQUIRED,
    WHERE,
    Directory,
    OnCached,
    PathLike,
    ReadOptions,
    ignore_progress,
)
from reader.pipeline import build_dataset, without_autograph
from reader.service.address import check_answers, parse_address
from reader.service.client import build_served, check_directory
from reader.state import check_generation, order_of, read_state
from reader.stream import ServedStream, Stream
from reader.transforms.augmentation import Augment


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
    sample: str | Mapping[str, float] | None = None,
    buckets: int = 1,
    image_size: int | None = None,
    augment: Augment = "none",
    label: str | tuple[str, ...] | None = None,
    features: tuple[str, ...] = (),
    dtype: str = "uint8",
    normalize: str = "none",
    max_tokens: int | None = None,
    pad: str = "longest",
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

        image    (images [batch, height, width, 3] uint8 or float32, labels)
        text     (texts [batch] string, labels)
        tokens   (ids [batch, length] int64, labels); see max_tokens, pad and buckets
        packed   ({"tokens", "segments", "positions"}: [batch, N - 1] int64 each, targets
                 [batch, N - 1] int64, weights [batch, N - 1] float32); the targets are the next
                 tokens, the weights 0 where the target is padding or of another document. A model
                 must attend within a segment only.

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
        sample=sample,
        buckets=buckets,
        image_size=image_size,
        augment=augment,
        label=label,
        features=features,
        dtype=dtype,
        normalize=normalize,
        max_tokens=max_tokens,
        pad=pad,
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
    address = None
    if service is not None:
        check_directory(directory)
        address = parse_address(service, WHERE)
        check_answers(address, WHERE)
    # On the CPU even where there is a GPU: tf.data runs there, and tensors would be copied twice.
    with tf.device("/CPU:0"):
        opened = open_split(directory, options)
        steps = opened.steps_per_epoch
        order = order_of(opened.info.root_hash, options)
        check_generation(state, opened.earlier)
        start = read_state(state, order, steps, epochs)
        batches = int(tf.data.INFINITE_CARDINALITY)  # makes Keras ask for steps_per_epoch
        if epochs is not None:
            batches = (epochs - start.epoch) * steps - start.step
        if address is not None:
            dataset = without_autograph(build_served)(
                opened.pipeline, address, steps, start, batches
            )
            return ServedStream(dataset, steps, opened.info, order, start, opened.copies)
        position = start.step * batch_size
        dataset = without_autograph(build_dataset)(opened.pipeline, start.epoch, position, batches)
    return Stream(
        dataset,
        steps,
        opened.info,
        order,
        start,
        opened.copies,
        options=options,
        directory=directory,
        pipeline=opened.pipeline,
        losses=(opened.skipped,),
    )


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
