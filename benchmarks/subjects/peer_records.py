"""Every record of a set, as a library reads it: `LIBRARY FOLDER [EXPECTED]`.

Prints how many there are, how many differ from one another, and how many are not expected: wrong
bytes that nobody noticed. A library that stops says why. EXPECTED is written where it is not there.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.subjects.clock import measure


def read_shardmill(folder: Path) -> Iterator[bytes]:
    """The records of all splits, as they are stored."""
    import reader
    from shard_format import load_manifest

    for split in load_manifest(folder).splits:
        access = reader.random_access(folder, split, decode=False)
        for number in range(len(access)):
            yield access[number]["image"]


def read_tensorflow(folder: Path) -> Iterator[bytes]:
    """TFRecord files by tf.data."""
    import tensorflow as tf

    wanted = {"image": tf.io.FixedLenFeature([], tf.string)}
    files = [str(path) for path in sorted(folder.rglob("*.tfrecord-*"))]
    for serialized in tf.data.TFRecordDataset(files):
        yield tf.io.parse_single_example(serialized, wanted)["image"].numpy()


def read_tfds(folder: Path) -> Iterator[bytes]:
    """The set by its builder."""
    import tensorflow_datasets as tfds

    (info,) = folder.rglob("dataset_info.json")
    builder = tfds.builder_from_directory(str(info.parent))
    for split in builder.info.splits:
        decoders = {"image": tfds.decode.SkipDecoding()}
        for example in builder.as_dataset(split=split, decoders=decoders):
            yield example["image"].numpy()


def read_mosaicml(folder: Path) -> Iterator[bytes]:
    """MDS."""
    import streaming

    streaming.base.util.clean_stale_shared_memory()
    dataset = streaming.StreamingDataset(local=str(folder), batch_size=1)
    for number in range(dataset.size):
        yield dataset[number]["jpg"]


def read_webdataset(folder: Path) -> Iterator[bytes]:
    """Tar files."""
    import webdataset as wds

    files = [str(path) for path in sorted(folder.rglob("*.tar"))]
    for record in wds.WebDataset(files, shardshuffle=False):
        yield record["jpg"]


def read_litdata(folder: Path) -> Iterator[bytes]:
    """Chunks of LitData."""
    import litdata

    dataset = litdata.StreamingDataset(str(folder))
    for number in range(len(dataset)):
        yield dataset[number]["jpeg"]


def read_datasets(folder: Path) -> Iterator[bytes]:
    """Parquet of Hugging Face."""
    import datasets

    files = [str(path) for path in sorted(folder.glob("*.parquet"))]
    cache = str(folder.parent / "datasets cache")
    for row in datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache):
        yield row["jpeg"]


def read_array_records(folder: Path) -> Iterator[bytes]:
    """ArrayRecord by Grain; the label is in front of each image."""
    import grain.python as grain

    source = grain.ArrayRecordDataSource([str(p) for p in sorted(folder.glob("*.array_record"))])
    for number in range(len(source)):
        yield source[number][8:]


# The module that is imported before the clock begins, and how the set is read.
READERS: dict[str, tuple[str, Callable[[Path], Iterator[bytes]]]] = {
    "shardmill": ("reader", read_shardmill),
    "tensorflow": ("tensorflow", read_tensorflow),
    "tfds": ("tensorflow_datasets", read_tfds),
    "streaming": ("streaming", read_mosaicml),
    "webdataset": ("webdataset", read_webdataset),
    "litdata": ("litdata", read_litdata),
    "datasets": ("datasets", read_datasets),
    "array_records": ("grain.python", read_array_records),
}


def main() -> None:
    """Arguments: LIBRARY FOLDER [EXPECTED]."""
    library, folder, *expected = sys.argv[1:]
    importlib.import_module(READERS[library][0])
    details: dict[str, Any] = {"error": ""}

    def read() -> int:
        seen: list[str] = []
        try:
            for data in READERS[library][1](Path(folder)):
                seen.append(hashlib.sha256(data).hexdigest())
        except Exception as error:  # whatever a library raises is what its user gets
            details["error"] = f"{type(error).__name__}: {error}"
        details["distinct"] = len(set(seen))
        if expected and not Path(expected[0]).exists():
            Path(expected[0]).write_text(json.dumps(sorted(set(seen))))
        if expected:
            known = set(json.loads(Path(expected[0]).read_text()))
            details["wrong"] = len(set(seen) - known)
            details["missing"] = len(known - set(seen))
        return len(seen)

    measure(read, details)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
