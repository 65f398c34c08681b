"""The library of a format alone: records that are in memory become files, by a process per core."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import reader
from benchmarks.subjects.clock import measure
from benchmarks.subjects.output import prepare

Records = Sequence[tuple[bytes, int]]  # JPEG, number of the class


def _webdataset(records: Records, out: Path) -> None:
    from webdataset import TarWriter

    with open(f"{out}.tar", "wb") as file, TarWriter(file, encoder=False) as tar:
        for number, (jpeg, label) in enumerate(records):
            members = {"jpg": jpeg, "cls": b"%d" % label, "json": b'{"label_name": "other"}'}
            tar.write({"__key__": f"{number:09d}", **members})


def _mds(records: Records, out: Path) -> None:
    from streaming import MDSWriter

    columns = {"image": "bytes", "label": "int64", "label_name": "str"}
    with MDSWriter(out=str(out), columns=columns, size_limit=None) as writer:
        for jpeg, label in records:
            writer.write({"image": jpeg, "label": label, "label_name": "other"})


def _array_record(records: Records, out: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(out), "group_size:1,uncompressed")
    for jpeg, _ in records:
        writer.write(jpeg)
    writer.close()


def _parquet(records: Records, out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for begin in range(0, len(records), 1024):
        jpegs, labels = zip(*records[begin : begin + 1024], strict=True)
        table = pa.table({"image": pa.array(jpegs, pa.binary()), "label": labels})
        if not begin:
            writer = pq.ParquetWriter(out, table.schema, compression="NONE", use_dictionary=False)
        writer.write_table(table)
    writer.close()


def _litdata(records: Records, out: Path) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(out), chunk_bytes=(1 << 32) - 1)
    for number, (jpeg, label) in enumerate(records):
        writer.add_item(number, {"image": jpeg, "label": label, "label_name": "other"})
    writer.done()


def _files(records: Records, out: Path) -> None:
    lines = []
    for number, (jpeg, label) in enumerate(records):
        folder = out / f"{label:02d}"
        if not folder.exists():
            folder.mkdir(parents=True)
        (folder / f"{number:09d}.jpg").write_bytes(jpeg)
        lines.append(json.dumps({"file_name": f"{label:02d}/{number:09d}.jpg"}) + "\n")
    (out / "metadata.jsonl").write_text("".join(lines))


# With the module that takes a while to load.
_WRITERS: dict[str, tuple[str, Callable[[Records, Path], None]]] = {
    "webdataset": ("webdataset", _webdataset),
    "mds": ("streaming", _mds),
    "array_record": ("array_record.python.array_record_module", _array_record),
    "parquet": ("pyarrow.parquet", _parquet),
    "litdata": ("litdata", _litdata),
    "files": ("json", _files),
}


def _work(to: str, directory: str, out: Path, own: slice, begins: Any) -> None:
    data = reader.random_access(directory, "train", decode=False)[own]
    records = [(record["image"], record["label"]) for record in data]
    module, write = _WRITERS[to]
    importlib.import_module(module)
    begins.wait()
    write(records, out)


def main() -> None:
    """Arguments: FORMAT SET OUT."""
    to, directory, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    prepare(out)
    out.mkdir(parents=True)
    cores, count = len(os.sched_getaffinity(0)), len(reader.random_access(directory, "train"))
    begins = multiprocessing.Barrier(cores + 1)
    processes = [
        multiprocessing.Process(
            target=_work,
            args=(to, directory, out / str(one), slice(one, count, cores), begins),
        )
        for one in range(cores)
    ]
    for process in processes:
        process.start()

    def write() -> int:
        begins.wait()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            raise SystemExit("A writer failed.")
        os.sync()
        return count

    while begins.n_waiting < cores:
        if any(process.exitcode for process in processes):
            raise SystemExit("A writer failed.")
        processes[0].join(0.1)
    measure(write)


if __name__ == "__main__":
    main()
