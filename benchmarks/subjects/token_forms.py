"""Packed sequences of tokens in the forms of other libraries: the same ids in the same order.

"memmap" is what training scripts after Megatron and nanoGPT read: one array of int32 in a file.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.subjects.clock import measure

Sequences = npt.NDArray[np.int32]  # [records, length]

LENGTH = 1025  # tokens of a record: 1,024 inputs, and the targets one behind them
ARRAY = "tokens.bin"
_SHARD_RECORDS = 4096  # of 4 kB: 16 MiB


def read_array(folder: Path) -> Sequences:
    """The array of a folder in the form "memmap", on the disk."""
    return np.memmap(folder / ARRAY, np.int32, "r").reshape(-1, LENGTH)


def write_memmap(source: Path, out: Path) -> int:
    """The training records of a shard set in one file."""
    from shard_format import decode_example, load_manifest, read_records

    count = 0
    with (out / ARRAY).open("wb") as file:
        for shard in load_manifest(source).splits["train"].shards:
            for _, serialized in read_records(source / shard.file):
                ids = np.array(decode_example(serialized)["tokens"], np.int32)
                file.write(ids.tobytes())
                count += 1
    return count


def write_mosaicml(source: Path, out: Path) -> int:
    """MDS, with an array of int32 in a record."""
    import streaming

    columns, sequences = {"tokens": f"ndarray:int32:{LENGTH}"}, read_array(source)
    with streaming.MDSWriter(out=str(out), columns=columns) as writer:
        for one in sequences:
            writer.write({"tokens": np.array(one)})
    return len(sequences)


def write_litdata(source: Path, out: Path) -> int:
    """Chunks of LitData for its TokensLoader: tensors end to end."""
    import torch
    from litdata.streaming.item_loader import TokensLoader
    from litdata.streaming.writer import BinaryWriter

    sequences = read_array(source)
    writer = BinaryWriter(
        str(out), chunk_size=_SHARD_RECORDS * LENGTH, item_loader=TokensLoader(LENGTH)
    )
    for number, one in enumerate(sequences):
        writer.add_item(number, torch.from_numpy(np.array(one)))
    writer.done()
    writer.merge()
    return len(sequences)


def write_array_records(source: Path, out: Path) -> int:
    """A file of ArrayRecord; a record is the bytes of the ids."""
    from array_record.python.array_record_module import ArrayRecordWriter

    sequences = read_array(source)
    writer = ArrayRecordWriter(str(out / "train.array_record"), "group_size:1,uncompressed")
    for one in sequences:
        writer.write(one.tobytes())
    writer.close()
    return len(sequences)


def write_datasets(source: Path, out: Path) -> int:
    """An Arrow data set of Hugging Face, as `save_to_disk` writes it."""
    import datasets

    sequences = read_array(source)
    features = datasets.Features({"tokens": datasets.List(datasets.Value("int32"), length=LENGTH)})
    whole = datasets.Dataset.from_dict({"tokens": np.array(sequences)}, features=features)
    whole.save_to_disk(str(out))
    return len(sequences)


FORMS: dict[str, Callable[[Path, Path], int]] = {
    "memmap": write_memmap,
    "mosaicml": write_mosaicml,
    "litdata": write_litdata,
    "array_records": write_array_records,
    "datasets": write_datasets,
}


def main() -> None:
    """Arguments: FORM SOURCE OUT; SOURCE is a shard set for "memmap", and that for the others."""
    form, source, out = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    Path(out).mkdir(parents=True)
    measure(lambda: FORMS[form](Path(source), Path(out)))


if __name__ == "__main__":
    main()
