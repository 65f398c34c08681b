"""Batches of token sequences, shuffled, by shardmill and by others: `LIBRARY FOLDER SECONDS`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.token_forms import LENGTH, read_array

_WORKERS = len(os.sched_getaffinity(0))


def read_ids(folder: Path) -> Iterator[Any]:
    """The NumPy batches of the reader: ids and next ids."""
    import reader

    stream = reader.load(folder, batch_size=BATCH, segments=False, cache="off")
    return iter(stream.numpy())


def read_segments(folder: Path) -> Iterator[Any]:
    """The same with the document of every token, its place in it, and weights."""
    import reader

    return iter(reader.load(folder, batch_size=BATCH, cache="off").numpy())


def read_dataset(folder: Path) -> Iterator[Any]:
    """Ids and next ids as a tf.data.Dataset."""
    import reader

    stream = reader.load(folder, batch_size=BATCH, segments=False, cache="off")
    return iter(stream.dataset)


def read_memmap(folder: Path) -> Iterator[Any]:
    """A permutation of the rows of an array on the disk."""
    sequences, generator = read_array(folder), np.random.default_rng(0)
    while True:
        order = generator.permutation(len(sequences))
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            yield sequences[order[begin : begin + BATCH]]


def read_mosaicml(folder: Path) -> Iterator[Any]:
    """StreamingDataset on local shards, in its own DataLoader."""
    import streaming

    streaming.base.util.clean_stale_shared_memory()  # a reader that was killed leaves some
    dataset = streaming.StreamingDataset(local=str(folder), batch_size=BATCH, shuffle=True)
    loader = streaming.StreamingDataLoader(
        dataset, batch_size=BATCH, num_workers=_WORKERS, drop_last=True, persistent_workers=True
    )
    while True:
        yield from (batch["tokens"] for batch in loader)


def read_litdata(folder: Path) -> Iterator[Any]:
    """StreamingDataset with the TokensLoader."""
    import litdata

    dataset = litdata.StreamingDataset(
        str(folder), item_loader=litdata.TokensLoader(LENGTH), shuffle=True, drop_last=True
    )
    loader = litdata.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=_WORKERS)
    while True:
        yield from loader


def read_array_records(folder: Path) -> Iterator[Any]:
    """Grain: a shuffled MapDataset, read and decoded by threads."""
    import grain.python as grain

    source = grain.ArrayRecordDataSource([str(path) for path in folder.glob("*.array_record")])
    dataset = (
        grain.MapDataset.source(source)
        .shuffle(seed=0)
        .repeat()
        .map(lambda data: np.frombuffer(data, np.int32))
        .to_iter_dataset(grain.ReadOptions(num_threads=_WORKERS))
        .batch(BATCH, drop_remainder=True)
    )
    return iter(dataset)


def read_datasets(folder: Path) -> Iterator[Any]:
    """Hugging Face: an Arrow data set with the format of PyTorch in a DataLoader."""
    import datasets
    import torch

    dataset = datasets.load_from_disk(str(folder)).with_format("torch")
    loader = torch.utils.data.DataLoader(
        dataset,
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=_WORKERS,
        persistent_workers=True,
    )
    while True:
        yield from (batch["tokens"] for batch in loader)


READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    "ids": read_ids,
    "segments": read_segments,
    "dataset": read_dataset,
    "memmap": read_memmap,
    "mosaicml": read_mosaicml,
    "litdata": read_litdata,
    "array_records": read_array_records,
    "datasets": read_datasets,
}
# What is imported before the clock begins.
_MODULES = {
    "ids": "reader",
    "segments": "reader",
    "dataset": "tensorflow",
    "memmap": "numpy",
    "mosaicml": "streaming",
    "array_records": "grain.python",
}


def _check(batch: Any) -> None:
    inputs = batch[0] if isinstance(batch, tuple) else batch
    tokens = inputs["tokens"] if isinstance(inputs, dict) else inputs
    if tuple(tokens.shape) not in ((BATCH, LENGTH), (BATCH, LENGTH - 1)):
        raise SystemExit(f"A batch is {tuple(tokens.shape)}, not {BATCH} sequences of {LENGTH}.")


def main() -> None:
    """Arguments: LIBRARY FOLDER SECONDS."""
    library, folder, seconds = sys.argv[1:]
    importlib.import_module(_MODULES.get(library, library))
    measure_reading(lambda: READERS[library](Path(folder)), [seconds], _check)


if __name__ == "__main__":
    main()
