"""`load`: from a directory and options to a stream of batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from reader.address import check_answers, parse_address
from reader.augmentation import Augment
from reader.opening import open_source
from reader.options import ReadOptions
from reader.pipeline import as_it_is, build_dataset
from reader.service import build_served, check_served
from reader.state import order_of, read_state
from reader.stream import ServedStream, Stream


def load(
    directory: str | os.PathLike[str],
    *,
    split: str = "train",
    batch_size: int,
    image_size: int | None = None,
    augment: Augment = "none",
    shuffle: str = "window",
    seed: int = 0,
    epochs: int | None = None,
    cache: str = "auto",
    cache_dir: str | os.PathLike[str] | None = None,
    cache_stage: str = "stored",
    cache_limit: int | str | None = None,
    on_cached: Callable[[int, int], None] = lambda done, total: None,
    remainder: str | None = None,
    dtype: str = "uint8",
    normalize: str = "none",
    max_tokens: int | None = None,
    pad: str = "longest",
    buckets: int = 1,
    synonyms: str | os.PathLike[str] | None = None,
    worker: tuple[int, int] = (0, 1),
    state: Mapping[str, Any] | None = None,
    streams: int | None = None,
    sample: str | Mapping[str, float] | None = None,
    threads: int | None = None,
    ram_budget: int | None = None,
    service: str | None = None,
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
    any number of them; a set without labels gives its inputs alone. Where `augment` mixes records,
    labels are [batch, num_classes] float32 too, the shares of the classes.

    A record that is damaged on disk raises tf.errors.DataLossError while the data set is iterated;
    TensorFlow names no file there, 'shardmill verify' does. With cache="memory", and where pictures
    are cached decoded, every byte is read here, and damage is a DamageError that names it.

    Args:
        directory: The shard set, or the URL of one: s3://, gs://, hdfs://, abfs:// and whatever
            else PyArrow reads. Of such a set the manifest and the index are always copied to
            cache_dir. What is not copied is read over the network, a few megabytes at a time.
        split: Name of a split of the set.
        batch_size: Records per batch, of all workers together.
        image_size: Height and width in pixels of the pictures of a batch. None leaves them at
            their stored size, which must be the same for all unless batch_size is 1.
        augment: "none" (of pictures the largest square in the middle), "standard" or "strong".
            Pictures: random crop and flip; brightness and contrast too. Text: words change places
            or are left out, or give way to synonyms; letters change too. Token ids: some are left
            out; some are hidden too. Packed sequences: some of the inputs are hidden ("standard").
            Of pictures also names of `reader.transforms.TRANSFORMS`, with commas between them, such
            as "standard,rand_augment"; or a list of names and transforms, such as ["standard",
            RandAugment(magnitude=5)]. They stand in the order of their stages, a crop first.
        shuffle: "window": every epoch in another order; chunks of records that lie together on disk
            change places, and records within windows of some thousands. "full": one permutation of
            the whole split, whatever its order on disk, by reading every record by itself. "off":
            the order on disk.
        seed: Order and augmentation are functions of seed, epoch and record, nothing else.
        epochs: None is endless. With a number the data set is finite; iterated again, it gives
            the same epochs again.
        cache: "off"; "memory" (the whole split); "disk" (copies in cache_dir); "auto" (chosen by
            size and free memory; `info.cache_reason` says why). The batches are the same. Copies on
            disk are made while the split is read where it lies, so that the first batch does not
            wait; they are compared with the manifest's SHA-256, and one that does not match is
            told in a warning and not used.
        cache_dir: For cache="disk"; default $XDG_CACHE_HOME/shardmill or ~/.cache/shardmill. A
            directory of a local disk, for any number of sets, splits and processes.
        cache_stage: "stored", or of pictures "decoded": they are decoded once, whole, before the
            first batch, and kept as pixels, 3 bytes each. With cache="disk" that is a shard set.
            Pays where decoding is what a training waits for; "auto" never decodes by itself.
        cache_limit: What cache_dir may hold, in bytes or as in "200GB"; default half of what is
            free or already its own. To make room, the shards go that were opened longest ago, of
            whatever set; never those that a live process reads. Of a split that does not fit, as
            many shards are kept as do, always the same ones, and the rest is read where it lies:
            under a permuted order, exchanging shards would copy all of them in every epoch.
        on_cached: Called with (bytes done, bytes of the split) while something is cached before
            the first batch: decoded pictures, and a set at a URL in memory.
        remainder: How an epoch ends whose records are no multiple of the batch. "drop" leaves the
            rest out, other records in every epoch. "keep" gives a smaller batch; needs epochs=1 and
            one worker, and is the default there. "wrap" fills the batch up with the first records
            of the epoch. "pad" does too, and every batch has weights [batch] float32 behind its
            labels, 0 for what was filled up: sums over all workers are then exact.
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
        worker: (i, n): the data set gives the i-th of n equal parts of every batch, and reads that
            part alone. All workers have the same number of steps, and their batches together are
            the same records whatever n is.
        state: Of `Stream.state`, from a stream of any number of workers: the data set begins there,
            and gives the batches that were to come. Also what random augmentation does is the same,
            if it is asked for as before.
        streams: Canonical streams, into which every epoch is dealt: n must divide them. They are
            part of the order, so decide before the training. Default 64; 8 with buckets, where
            fewer save more padding. Halved as long as one record of each is beyond 256 MiB.
        sample: "balanced" draws records of all classes alike; {name: weight} by these weights. An
            epoch then has as many draws as the split has records; records of rare classes come
            several times, augmented anew. Needs 8 bytes of memory a record.
        threads: How many threads read, parse and decode; None shares TensorFlow's, one per core.
        ram_budget: Bytes that may be taken by what is prefetched; None leaves it to TensorFlow,
            which takes up to half of what is free.
        service: "grpc://host:port" of 'shardmill serve': other processes read, decode, augment and
            batch, and see the set under the same path. The batches of an epoch are the same, each
            once, in an order that depends on the workers; what a worker that fails had in hand, or
            all if the service is gone, is read here. A state can be taken between epochs only. No
            cache; threads and ram_budget are of this process.

    Raises:
        UsageError: An option is wrong, or does not fit the set, or no service answers.
        ShardSetError: There is no shard set, or it cannot be read by this version.
        DamageError: The set is not what its manifest says.
    """
    address = None
    if service is not None:
        cache = check_served(directory, cache, synonyms)
        address = parse_address(service, "reader.load")
        check_answers(address, "reader.load")
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
        cache_stage=cache_stage,
        cache_limit=cache_limit,
        remainder=remainder,
        dtype=dtype,
        normalize=normalize,
        max_tokens=max_tokens,
        pad=pad,
        buckets=buckets,
        synonyms=None if synonyms is None else Path(synonyms).expanduser(),
        worker=worker,
        streams=streams,
        sample=sample,
        threads=threads,
        ram_budget=ram_budget,
    )
    # On the host, though there be a GPU: tf.data runs there, and would copy tensors back and forth.
    with tf.device("/CPU:0"):
        opened = open_source(directory, options, on_cached)
        steps = opened.steps_per_epoch
        order = order_of(opened.info.root_hash, options)
        start = read_state(state, order, steps, epochs)
        batches = int(tf.data.INFINITE_CARDINALITY)  # makes Keras ask for steps_per_epoch
        if epochs is not None:
            batches = (epochs - start.epoch) * steps - start.step
        if address is not None:
            dataset = as_it_is(build_served)(opened.source, address, steps, start, batches)
            return ServedStream(dataset, steps, opened.info, order, start, opened.copies)
        position = start.step * batch_size
        dataset = as_it_is(build_dataset)(opened.source, start.epoch, position, batches)
    found = (dataset, steps, opened.info, order, start, opened.copies)
    return Stream(*found, options=options, directory=directory)
