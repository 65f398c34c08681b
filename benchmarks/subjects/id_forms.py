"""Tiny records, each its number, in the forms of libraries and in this order: `LIBRARY COUNT OUT`.

A shard has as many records as one of 64 MiB has of photographs of 16 kB.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.subjects.clock import measure

SHARD_RECORDS = 4096
_MDS_BYTES = 12  # of a record: an int64, and its offset


def write_lines(count: int, out: Path) -> None:
    """JSON Lines, which shardmill builds a set from."""
    with (out / "ids.jsonl").open("w") as file:
        for number in range(count):
            file.write(json.dumps({"text": str(number)}) + "\n")


def write_array(count: int, out: Path) -> None:
    """An array of int64."""
    np.arange(count).tofile(out / "ids.bin")


def write_mosaicml(count: int, out: Path) -> None:
    """MDS."""
    import streaming

    size = SHARD_RECORDS * _MDS_BYTES
    with streaming.MDSWriter(out=str(out), columns={"id": "int"}, size_limit=size) as writer:
        for number in range(count):
            writer.write({"id": number})


def write_litdata(count: int, out: Path) -> None:
    """Chunks of LitData."""
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(out), chunk_size=SHARD_RECORDS)
    for number in range(count):
        writer.add_item(number, {"id": number})
    writer.done()
    writer.merge()


def write_array_records(count: int, out: Path) -> None:
    """ArrayRecord."""
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(out / "ids.array_record"), "group_size:1,uncompressed")
    for number in range(count):
        writer.write(number.to_bytes(8, "little"))
    writer.close()


def write_webdataset(count: int, out: Path) -> None:
    """Tar files, 1 kB for each record."""
    for begin in range(0, count, SHARD_RECORDS):
        with tarfile.open(out / f"{begin:09d}.tar", "w") as tar:
            for number in range(begin, min(count, begin + SHARD_RECORDS)):
                member, content = tarfile.TarInfo(f"{number:09d}.id"), str(number).encode()
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def write_tfrecords(count: int, out: Path) -> None:
    """TFRecord files of tf.train.Examples."""
    import tensorflow as tf

    for begin in range(0, count, SHARD_RECORDS):
        with tf.io.TFRecordWriter(str(out / f"ids-train.tfrecord-{begin:09d}")) as writer:
            for number in range(begin, min(count, begin + SHARD_RECORDS)):
                text = tf.train.BytesList(value=[str(number).encode()])
                features = tf.train.Features(feature={"text": tf.train.Feature(bytes_list=text)})
                writer.write(tf.train.Example(features=features).SerializeToString())


FORMS: dict[str, Callable[[int, Path], None]] = {
    "lines": write_lines,
    "array": write_array,
    "mosaicml": write_mosaicml,
    "litdata": write_litdata,
    "array_records": write_array_records,
    "webdataset": write_webdataset,
    "tfrecords": write_tfrecords,
}


def main() -> None:
    """Arguments: LIBRARY COUNT OUT."""
    library, count, out = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    Path(out).mkdir(parents=True)

    def write() -> int:
        FORMS[library](int(count), Path(out))
        return int(count)

    measure(write)


if __name__ == "__main__":
    main()
