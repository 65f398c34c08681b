"""Converts a set, and reads it with the library of the format, where that is installed.

    python -m tests.interop.converted FORMAT SET FOLDER OUT.pickle [BYTES]

OUT.pickle gets, by split, a list of the records in order: dictionaries with texts, numbers, bytes
and nested lists of them, as the library returns them. BYTES is the size of the files.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import reader

Records = Iterator[dict[str, Any]]


def main() -> None:
    """Arguments: see above."""
    name, directory, folder, out, *size = sys.argv[1:]
    reader.convert(directory, name, folder, shard_bytes=int(size[0]) if size else 128 << 20)
    note = json.loads((Path(folder) / "conversion.json").read_text())
    result = {}
    for split in note["splits"]:
        records = READERS[name](Path(folder), split) if name in READERS else ()
        result[split] = [_plain(record) for record in records]
    Path(out).write_bytes(pickle.dumps(result))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if hasattr(value, "numpy"):  # of PyTorch
        value = value.numpy()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def read_webdataset(folder: Path, split: str) -> Records:
    """With the decoders of WebDataset for what is not an image."""
    import webdataset

    tars = [str(path) for path in sorted(folder.glob(f"{split}-*.tar"))]
    dataset = webdataset.WebDataset(tars, shardshuffle=False, empty_check=False)
    for sample in dataset:
        record = json.loads(sample.pop("json"))
        for name, data in sample.items():
            if name.endswith(".npy"):
                record[name.removesuffix(".npy")] = np.load(io.BytesIO(data))
            elif name == "cls":
                record["label"] = int(data)
            elif name == "txt":
                record["txt"] = data.decode()
            elif not name.startswith("__"):
                record[name] = data
        yield record


def read_mds(folder: Path, split: str) -> Records:
    """With the StreamingDataset of MosaicML."""
    import streaming

    streaming.base.util.clean_stale_shared_memory()
    dataset = streaming.StreamingDataset(local=str(folder / split), shuffle=False, batch_size=1)
    yield from (dataset[number] for number in range(len(dataset)))


def read_litdata(folder: Path, split: str) -> Records:
    """With the StreamingDataset of LitData."""
    import litdata

    yield from litdata.StreamingDataset(str(folder / split), shuffle=False)


def read_parquet(folder: Path, split: str) -> Records:
    """With Hugging Face datasets, images as they are stored."""
    import datasets

    dataset = datasets.load_dataset(str(folder), split=split)
    names = [name for name, one in dataset.features.items() if isinstance(one, datasets.Image)]
    assert all(dataset[0][name].size for name in names)  # it decodes them
    for batch in dataset.with_format("arrow").iter(100):
        yield from batch.to_pylist()


READERS: dict[str, Callable[[Path, str], Records]] = {
    "webdataset": read_webdataset,
    "mds": read_mds,
    "litdata": read_litdata,
    "parquet": read_parquet,
}

if __name__ == "__main__":
    main()
