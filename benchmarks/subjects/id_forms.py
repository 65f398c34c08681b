"""Millions of tiny records, each its number, in the forms of libraries: `LIBRARY COUNT OUT`."""

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

_SHARD_RECORDS = 1 << 20


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

    with streaming.MDSWriter(out=str(out), columns={"id": "int"}) as writer:
        for number in range(count):
            writer.write({"id": number})


def write_litdata(count: int, out: Path) -> None:
    """Chunks of LitData."""
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(out), chunk_bytes="64MB")
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
    for begin in range(0, count, _SHARD_RECORDS // 16):
        with tarfile.open(out / f"{begin:09d}.tar", "w") as tar:
            for number in range(begin, min(count, begin + _SHARD_RECORDS // 16)):
                member, content = tarfile.TarInfo(f"{number:09d}.id"), str(number).encode()
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


FORMS: dict[str, Callable[[int, Path], None]] = {
    "lines": write_lines,
    "array": write_array,
    "mosaicml": write_mosaicml,
    "litdata": write_litdata,
    "array_records": write_array_records,
    "webdataset": write_webdataset,
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
