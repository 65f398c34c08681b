"""A class-sorted corpus, the set that is built from it, and common orders to read it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.shuffle_statistics import CLASSES, Order, classes_of
from reader.order.geometry import STREAMS, Geometry, make_geometry
from reader.order.numpy_order import epoch_numbers
from shard_format import id_hash, load_manifest, open_split_index, shuffle_keys

BUFFER = 10_000  # records of a shuffle buffer that is considered large
_FILES = 16  # that are interleaved, TFDS's default

# (seed, epoch) -> [records] int64
Orders = Callable[[int, int], Order]


def write_corpus(path: Path, records: int) -> None:
    """JSON Lines, sorted by class, with equal numbers of every class."""
    with path.open("w") as file:
        for number in range(records):
            document = f"The document of number {number} is one of a sorted corpus."
            label = f"class{number * CLASSES // records:03d}"
            file.write(json.dumps({"text": document, "label": label}) + "\n")


def build_options(source: Path, out: Path) -> list[str]:
    """The arguments of `shardmill` that put all records into the training split."""
    return [
        *("preprocess", "text", str(source), "--out", str(out)),
        *("--clean", "none", "--dedup", "off", "--split", "train=1", "--no-report"),
    ]


def built_order(directory: Path) -> tuple[Order, Geometry]:
    """The corpus numbers of the records in the order on disk, and how the reader divides them.

    Raises:
        SystemExit: The records on disk do not have the labels of these numbers.
    """
    index = open_split_index(directory, load_manifest(directory), "train")
    # An id is the file and the byte at which the record begins, with a fixed number of digits, so
    # ids sort in the order of the corpus.
    ids = index["record_id"].to_pylist()
    disk = np.argsort(np.argsort(np.array(ids))).astype(np.int64)
    if (classes_of(disk) != np.array(index["label"].to_numpy())).any():
        raise SystemExit(f"{directory} is not the set of the sorted corpus")
    return disk, make_geometry(load_manifest(directory).splits["train"], STREAMS)


def order_by_key(record_ids: list[str], seed: int) -> Order:
    """The order on disk of a build with this seed: the numbers of these ids, by shuffle key.

    Args:
        record_ids: The ids in the order of the corpus.
        seed: The seed of the build.
    """
    hashes = np.array([id_hash(record_id) for record_id in record_ids], np.uint64)
    return np.argsort(shuffle_keys(hashes, seed)).astype(np.int64)


def reader_orders(disk: Order, geometry: Geometry, shuffle: str) -> Orders:
    """The reader's order, over records in this order on disk."""
    return lambda seed, epoch: disk[_epoch(geometry, seed, epoch, shuffle)]


@functools.lru_cache(maxsize=512)  # over two orders on disk the epochs are the same
def _epoch(geometry: Geometry, seed: int, epoch: int, shuffle: str) -> Order:
    return epoch_numbers(geometry, seed, epoch, shuffle)


def buffer_orders(disk: Order) -> Orders:
    """tf.data's shuffle with a buffer, over records in the order on disk."""

    def order(seed: int, epoch: int) -> Order:
        records = tf.data.Dataset.from_tensor_slices(disk)
        # With a seed per epoch: the seed of `shuffle` alone would give the same order every time.
        shuffled = records.shuffle(BUFFER, seed=2 * seed + epoch + 1)
        return np.asarray(shuffled.batch(len(disk)).get_single_element())

    return order


def interleaved(records: int) -> Order:
    """A sorted corpus in files of equal length, read one record at a time in turn."""
    per_file = records // _FILES
    woven = np.arange(per_file * _FILES).reshape(_FILES, per_file).T.ravel()
    return np.concatenate([woven, np.arange(per_file * _FILES, records)])


def uniform_order(records: int, number: int) -> Order:
    """One of the random permutations of the comparison."""
    return np.random.default_rng([records, number]).permutation(records)
