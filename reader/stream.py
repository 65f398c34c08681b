"""`load`: from a directory and options to a stream of batches."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import tensorflow as tf

from reader import cache as caches
from reader.chunks import cut_chunks
from reader.info import StreamInfo, stream_info
from reader.options import ReadOptions, check_choice
from reader.payloads import FilePayloads, Payloads, load_payloads
from reader.pipeline import build_dataset
from reader.record_types import RECORD_TYPES, OpenSplit, RecordTypeFactory, kind_of
from shard_format import Manifest, ShardSetError, SplitInfo, UsageError, load_manifest, open_index
from shard_format.naming import index_file


@dataclasses.dataclass(frozen=True)
class Stream:
    """A split as batches.

    Attributes:
        dataset: Of (inputs [batch, ...], targets [batch, ...]), or of inputs alone where the set
            has no labels; of packed sequences (inputs, targets, weights). See `load`.
        steps_per_epoch: Batches in one pass over the split.
        info: What is read, and how.
    """

    dataset: tf.data.Dataset
    steps_per_epoch: int
    info: StreamInfo


def load(
    directory: str | os.PathLike[str],
    *,
    split: str = "train",
    batch_size: int,
    image_size: int | None = None,
    augment: str = "none",
    shuffle: str = "window",
    seed: int = 0,
    epochs: int | None = None,
    cache: str = "auto",
    cache_dir: str | os.PathLike[str] | None = None,
    drop_remainder: bool | None = None,
    dtype: str = "uint8",
    normalize: str = "none",
    max_tokens: int | None = None,
    pad: str = "longest",
    buckets: int = 1,
    synonyms: str | os.PathLike[str] | None = None,
) -> Stream:
    """A stream over one split of a shard set, for `model.fit` or any loop over tf.data.

    Training: `load(d, batch_size=128, image_size=224, augment="standard")`, endless, and
    `model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=...)`.
    Evaluation: `load(d, split="test", batch_size=128, image_size=224, shuffle="off", epochs=1)`.

    What a batch is depends on the set (`info.record_type`):

        image    (pictures [batch, height, width, 3] uint8 or float32, labels)
        text     (texts [batch] string, labels)
        tokens   (ids [batch, length] int64, labels); see max_tokens, pad and buckets
        packed   ({"tokens", "segments", "positions"}: [batch, N - 1] int64 each, targets
                 [batch, N - 1] int64, weights [batch, N - 1] float32); the targets are the next
                 tokens, the weights 0 where that is padding or of another document. A model must
                 attend within a segment only.

    Labels are [batch] int64, or [batch, num_classes] float32 of zeros and ones where a record has
    any number of them; a set without labels gives its inputs alone.

    A record that is damaged on disk raises tf.errors.DataLossError while the data set is iterated;
    TensorFlow names no file there, 'shardmill verify' does. With cache="memory" or "disk" every
    byte is read here, and damage is a DamageError that names it.

    Args:
        directory: The shard set.
        split: Name of a split of the set.
        batch_size: Records per batch.
        image_size: Height and width in pixels of the pictures of a batch. None leaves them at
            their stored size, which must be the same for all unless batch_size is 1.
        augment: "none" (of pictures the largest square in the middle), "standard" or "strong".
            Pictures: random crop and flip; brightness and contrast too. Text: words change places
            or are left out, or give way to synonyms; letters change too. Token ids: some are left
            out; some are hidden too. Packed sequences: some of the inputs are hidden ("standard").
        shuffle: "window" (every epoch in another order) or "off" (the order on disk).
        seed: Order and augmentation are functions of seed, epoch and record, nothing else.
        epochs: None is endless. With a number the data set is finite; iterated again, it gives
            the same epochs again.
        cache: "off"; "memory" (all stored bytes of the split); "disk" (a copy in cache_dir);
            "auto" (chosen by size and free memory; `info.cache_reason` says why). The batches are
            the same.
        cache_dir: For cache="disk"; default $XDG_CACHE_HOME/shardmill or ~/.cache/shardmill.
        drop_remainder: Whether every epoch ends with its last full batch; default True, except
            with epochs=1.
        dtype: "uint8" (a quarter of the bytes to the accelerator) or "float32"; values are in
            [0, 255] either way, models rescale.
        normalize: "zscore" takes away the mean of each channel and divides by its standard
            deviation; "minmax" maps its least and greatest value to 0 and 1. Both were measured on
            the training split, whatever split is read, and give float32 whatever the dtype.
        max_tokens: Of token ids: no more than that many of a record, its first; None is all.
        pad: Of token ids, with `info.tokens.pad_id`: "longest" (to the longest of the batch),
            "max" (all batches alike, to max_tokens or to the longest of the split) or "none" (a
            tf.RaggedTensor).
        buckets: Of token ids: above 1, batches are of records of similar length, which saves
            padding (`info.tokens.padding_share`). The records of a window of some thousands are
            divided by length into that many groups, from each of which whole batches are taken.
        synonyms: Of raw text, with augment: a text file, each line some words that may stand for
            each other, with commas between them.

    Raises:
        UsageError: An option is wrong, or does not fit the set.
        ShardSetError: There is no shard set, or it cannot be read by this version.
        DamageError: The set is not what its manifest says.
    """
    options = ReadOptions(
        split=split,
        batch_size=batch_size,
        image_size=image_size,
        augment=augment,
        shuffle=shuffle,
        seed=seed,
        epochs=epochs,
        cache=cache,
        cache_dir=None if cache_dir is None else Path(cache_dir).expanduser(),
        drop_remainder=drop_remainder,
        dtype=dtype,
        normalize=normalize,
        max_tokens=max_tokens,
        pad=pad,
        buckets=buckets,
        synonyms=None if synonyms is None else Path(synonyms).expanduser(),
    )
    root = Path(directory)
    manifest = load_manifest(root)
    split_info = _checked_split(manifest, options, root)
    index_path = root / index_file(split)
    index = open_index(index_path)
    chunks = cut_chunks(split_info, index, index_path)
    opened = OpenSplit(root, manifest, index, chunks, index_path)

    # On the host, though there be a GPU: tf.data runs there, and would copy tensors back and forth.
    with tf.device("/CPU:0"):
        records = _record_type(manifest, root)(opened, options)
        choice, paths = _open_cache(root, manifest, split_info, options)
        payloads: Payloads
        if choice.cache == "memory":
            payloads = load_payloads(paths, split_info)
        else:
            payloads = FilePayloads(paths, chunks)
        dataset = build_dataset(chunks, payloads, records, options)
    info = stream_info(opened, options, records, choice)
    return Stream(dataset, _steps(split_info.records, options), info)


def _checked_split(manifest: Manifest, options: ReadOptions, root: Path) -> SplitInfo:
    """The split, which has records enough for one batch.

    Raises:
        UsageError: There is no such split, or a batch is larger than it.
        ShardSetError: The split has no records.
    """
    check_choice("split", options.split, manifest.splits, root)
    split = manifest.splits[options.split]
    if not split.records:
        filled = [name for name, info in manifest.splits.items() if info.records]
        raise ShardSetError(
            f"a split to be read must have records, got none in {options.split!r} of {root}. "
            f"Read another one ({', '.join(filled) or 'all are empty'}), or build the set again "
            "with a larger share for it."
        )
    if options.drops_remainder and options.batch_size > split.records:
        raise UsageError(
            f"batch_size must be at most the records of the split ({split.records}), got "
            f"{options.batch_size} for {options.split!r} of {root}. Take a smaller batch, or "
            "pass epochs=1, where the last batch may be partial."
        )
    return split


def _open_cache(
    root: Path, manifest: Manifest, split: SplitInfo, options: ReadOptions
) -> tuple[caches.CacheChoice, list[Path]]:
    """Which cache is used, and the files to read."""
    cache_dir = options.cache_dir or caches.default_cache_dir()
    choice = caches.choose_cache(options.cache, split, options.epochs, root, cache_dir)
    if choice.cache == "disk":
        return choice, caches.fill_disk_cache(root, split, cache_dir / manifest.root_hash)
    return choice, caches.check_shards(root, split)


def _record_type(manifest: Manifest, root: Path) -> RecordTypeFactory:
    name = kind_of(manifest.schema)
    if name not in RECORD_TYPES:
        raise ShardSetError(
            f"this version reads records of type {', '.join(RECORD_TYPES)}, got {name!r} in "
            f"{root}. Install a version of shardmill that knows it."
        )
    return RECORD_TYPES[name]


def _steps(records: int, options: ReadOptions) -> int:
    if options.drops_remainder:
        return records // options.batch_size
    return -(-records // options.batch_size)
