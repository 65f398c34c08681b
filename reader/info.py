"""What a stream reads, and how: for whoever trains on it or measures it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from reader.caching.choosing import CacheChoice
from reader.normalization import Normalization
from reader.options import ReadOptions
from reader.record_types import OpenSplit, RecordType, TokenInfo, kind_of

# What a batch has beside its inputs: one label a record [batch] int64; any number of them as
# [batch, num_classes] float32 of zeros and ones, or of what lies between where records are mixed;
# of mixed records with one label each, the shares of the classes [batch, num_classes] float32,
# which add up to 1; nothing (a batch is then no pair); or the next token at every position and its
# weight (a batch has then three parts).
TARGETS = ("label", "labels", "shares", "none", "next_tokens")


@dataclasses.dataclass(frozen=True)
class StreamInfo:
    """What a stream reads.

    Attributes:
        directory: The shard set.
        root_hash: Names the content of the set.
        split: Name of the split.
        records: Records of the split.
        stored_bytes: Bytes of the split's shards.
        record_type: "image", "text", "tokens" or "packed".
        targets: One of `TARGETS`.
        class_names: The name of every label.
        features: Names of the further features that batches have.
        element_shape: Shape of one input, such as (224, 224, 3), or () for a text; None where it
            varies.
        dtype: Element type of the inputs.
        normalization: What was done to them, or None; an evaluation must do the same.
        tokens: What there is to say of token ids; None for sets of pictures and raw text.
        batch_size: Records per batch, of all workers together.
        shuffle: One of `reader.options.SHUFFLES`.
        worker: (i, n): this stream gives the i-th of n equal parts of every batch.
        streams: Canonical streams; n may be any number that divides them.
        remainder: One of `reader.options.REMAINDERS`.
        seed: What order and augmentation were drawn from.
        epochs: How often the split is read; None is endless.
        cache: "off", "memory" or "disk".
        cache_stage: What it holds: records as they are "stored", or with pictures "decoded".
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
        """How many classes labels tell apart."""
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int | None, ...]:
        """`element_shape` of pictures: (height, width, 3), or (3, height, width) if asked for."""
        return self.element_shape


def stream_info(
    split: OpenSplit,
    options: ReadOptions,
    records: RecordType,
    choice: CacheChoice,
    remark: str,
) -> StreamInfo:
    """What a stream of these records, options and cache reads."""
    stored = split.manifest.splits[options.split]
    labels = [item for item in split.schema.features if item.kind == "class_label"]
    return StreamInfo(
        directory=split.root,
        root_hash=split.manifest.root_hash,
        split=options.split,
        records=stored.records,
        stored_bytes=stored.bytes,
        record_type=kind_of(split.schema),
        targets=records.targets,
        class_names=labels[0].class_names if labels else (),
        features=options.features,
        element_shape=records.element_shape,
        dtype=records.element_dtype,
        normalization=records.normalization,
        tokens=records.tokens,
        batch_size=options.batch_size,
        shuffle=options.shuffle,
        worker=options.worker,
        streams=split.geometry.streams,
        remainder=str(options.remainder),
        seed=options.seed,
        epochs=options.epochs,
        cache=choice.cache,
        cache_stage=choice.stage,
        cache_reason=choice.reason + remark,
    )
