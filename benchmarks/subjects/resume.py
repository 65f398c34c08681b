"""Going on in the middle of an epoch: `LIBRARY FOLDER PLACE STATE [reach]`.

"reach" reads from the beginning to the place, saves the state and the ids of the next batches.
Without, a new process loads the state; the clock runs until its next batch, and its ids are
compared. A program without a state reads again from the beginning.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.subjects.clock import BATCH, measure

_WORKERS = len(os.sched_getaffinity(0))
_COMPARED = 8  # batches behind the place
_BUFFER = 4096


class Reading(NamedTuple):
    """An epoch that is being read.

    Attributes:
        batches: The ids of each batch.
        save: The state behind the last batch that was taken; None where there is none to save.
        go_to: Goes to a batch, where the state is nothing but its number; else None.
    """

    batches: Iterator[Any]
    save: Callable[[], Any]
    go_to: Callable[[int], None] | None = None


def read_shardmill(folder: Path, state: Any) -> Reading:
    """The reader's NumPy batches."""
    import reader

    stream = reader.load(folder, batch_size=BATCH, cache="off", shuffle="full", epochs=1)
    if state is not None:
        stream.load_state_dict(state)
    return Reading(iter(stream), stream.state_dict)


def read_mosaicml(folder: Path, state: Any) -> Reading:
    """StreamingDataLoader."""
    import streaming

    streaming.base.util.clean_stale_shared_memory()
    dataset = streaming.StreamingDataset(local=str(folder), batch_size=BATCH, shuffle=True)
    loader = streaming.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=_WORKERS)
    if state is not None:
        loader.load_state_dict(state)
    return Reading((batch["id"] for batch in loader), loader.state_dict)


def read_litdata(folder: Path, state: Any) -> Reading:
    """StreamingDataLoader."""
    import litdata

    dataset = litdata.StreamingDataset(str(folder), shuffle=True, drop_last=True)
    loader = litdata.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=_WORKERS)
    if state is not None:
        loader.load_state_dict(state)
    return Reading((batch["id"] for batch in loader), loader.state_dict)


def read_array_records(folder: Path, state: Any) -> Reading:
    """Grain."""
    import grain.python as grain

    source = grain.ArrayRecordDataSource([str(path) for path in folder.glob("*.array_record")])
    batches = iter(
        grain.MapDataset.source(source)
        .shuffle(seed=0)
        .map(lambda data: int.from_bytes(data, "little"))
        .to_iter_dataset(grain.ReadOptions(num_threads=_WORKERS))
        .batch(BATCH, drop_remainder=True)
    )
    if state is not None:
        batches.set_state(state)
    # Two milliseconds a record: millions would be read for hours.
    return Reading(
        batches,
        batches.get_state,
        lambda number: batches.set_state({"next_index": number * BATCH}),
    )


def read_array(folder: Path, state: Any) -> Reading:
    """Torchdata's StatefulDataLoader, over an array."""
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader

    ids = np.memmap(folder / "ids.bin", np.int64, "r")
    loader = StatefulDataLoader(
        ids,
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=_WORKERS,
        generator=torch.Generator().manual_seed(0),
    )
    if state is not None:
        loader.load_state_dict(state)
    return Reading(iter(loader), loader.state_dict)


def read_tensorflow(folder: Path, state: Any) -> Reading:
    """tf.data over the same TFRecord files, and its own checkpoint of an iterator."""
    import tensorflow as tf

    files = [str(path) for path in sorted(folder.glob("*-train.tfrecord-*"))]
    wanted = {"text": tf.io.FixedLenFeature([], tf.string)}
    batches = iter(
        tf.data.Dataset.from_tensor_slices(files)
        .shuffle(len(files), seed=0)
        .interleave(tf.data.TFRecordDataset, cycle_length=4, deterministic=True)
        .shuffle(_BUFFER, seed=0)
        .batch(BATCH, drop_remainder=True)
        .map(lambda serialized: tf.io.parse_example(serialized, wanted)["text"])
    )
    checkpoint = tf.train.Checkpoint(batches=batches)
    place = str(folder.parent / "tf.data checkpoint" / "state")
    if state is not None:
        checkpoint.read(place)
    return Reading((batch.numpy() for batch in batches), lambda: checkpoint.write(place))


def read_window(folder: Path, state: Any) -> Reading:
    """The reader's NumPy batches, in the order that it has by default."""
    import reader

    stream = reader.load(folder, batch_size=BATCH, cache="off", epochs=1)
    return Reading(iter(stream), stream.state_dict)


def read_tfds(folder: Path, state: Any) -> Reading:
    """TFDS, with a shuffle buffer as in its documentation."""
    import tensorflow_datasets as tfds

    config = tfds.ReadConfig(try_autocache=False)
    dataset = tfds.builder_from_directory(str(folder)).as_dataset(
        split="train", shuffle_files=True, read_config=config
    )
    batches = dataset.shuffle(_BUFFER).batch(BATCH, drop_remainder=True)
    return Reading((batch["text"].numpy() for batch in batches), lambda: None)


def read_datasets(folder: Path, state: Any) -> Reading:
    """Hugging Face: a streamed data set with a shuffle buffer."""
    import datasets

    files = [str(path) for path in sorted(folder.glob("*.tar"))]
    stream = datasets.load_dataset("webdataset", data_files=files, split="train", streaming=True)
    batches = stream.shuffle(seed=0, buffer_size=_BUFFER).batch(BATCH, drop_last_batch=True)
    return Reading((list(map(int, batch["id"])) for batch in batches), lambda: None)


def read_webdataset(folder: Path, state: Any) -> Reading:
    """Tar files, shuffled with a seed; there is no state."""
    import webdataset as wds

    files = [str(path) for path in sorted(folder.glob("*.tar"))]
    dataset = (
        wds.WebDataset(files, shardshuffle=len(files), seed=0)
        .shuffle(_BUFFER, seed=0)
        .to_tuple("id")
        .map(lambda record: (int(record[0]),))
        .batched(BATCH, partial=False)
    )
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=1)
    return Reading((batch[0] for batch in loader), lambda: None)


READERS: dict[str, tuple[str, Callable[[Path, Any], Reading]]] = {
    "shardmill": ("reader.loading", read_shardmill),
    "shardmill, window": ("reader.loading", read_window),
    "TFDS": ("tensorflow_datasets", read_tfds),
    "datasets": ("datasets", read_datasets),
    "tensorflow": ("tensorflow", read_tensorflow),
    "mosaicml": ("streaming", read_mosaicml),
    "litdata": ("litdata", read_litdata),
    "array_records": ("grain.python", read_array_records),
    "array": ("torchdata.stateful_dataloader", read_array),
    "webdataset": ("webdataset", read_webdataset),
}


def _ids(batch: Any) -> list[int]:
    return [int(one) for one in np.asarray(batch)]


def _reach(library: str, folder: Path, batches: int, file: Path) -> int:
    """Reads to the place, and saves the state and what comes then."""
    reading = READERS[library][1](folder, None)
    iterator = iter(reading.batches)
    if reading.go_to is not None:
        reading.go_to(batches - 1)
    for _ in itertools.islice(iterator, 1 if reading.go_to else batches):
        pass
    state = reading.save()
    expected = [_ids(batch) for batch in itertools.islice(iterator, _COMPARED)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps({"state": state, "expected": expected}))
    return batches * BATCH


def _state_bytes(folder: Path, state: Any) -> int:
    if state is None:
        return 0
    if isinstance(state, str) and "checkpoint" in state:  # of tf.data: where its files are
        return sum(path.stat().st_size for path in Path(state).parent.iterdir())
    try:
        return len(json.dumps(state))
    except TypeError:
        return len(pickle.dumps(state))


def main() -> None:
    """Arguments: LIBRARY FOLDER BATCHES STATE [reach]."""
    library, folder, batches, state, *reach = sys.argv[1:]
    importlib.import_module(READERS[library][0])
    if reach:
        measure(lambda: _reach(library, Path(folder), int(batches), Path(state)))
        os._exit(0)
    saved = pickle.loads(Path(state).read_bytes())
    details: dict[str, Any] = {"state_bytes": _state_bytes(Path(folder), saved["state"])}

    def resume() -> int:
        begun = time.perf_counter()
        iterator = iter(READERS[library][1](Path(folder), saved["state"]).batches)
        if saved["state"] is None:
            next(itertools.islice(iterator, int(batches) - 1, None))
        first = _ids(next(iterator))
        details["next_seconds"] = round(time.perf_counter() - begun, 3)
        rest = [_ids(batch) for batch in itertools.islice(iterator, _COMPARED - 1)]
        details["exact"] = "yes" if [first, *rest] == saved["expected"] else "no"
        return BATCH * _COMPARED

    measure(resume, details)
    sys.stdout.flush()
    os._exit(0)  # workers that read ahead would take seconds to end


if __name__ == "__main__":
    main()
