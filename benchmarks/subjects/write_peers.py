"""Tar files of WebDataset in the forms of other libraries: the same bytes in the same order."""

from __future__ import annotations

import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.subjects.clock import measure

_SHARD_RECORDS = 4096  # about 64 MiB


def _records(tars: Path) -> Iterator[tuple[bytes, int]]:
    """(JPEG, class number) of every record."""
    for path in sorted(tars.glob("*.tar")):
        with tarfile.open(path) as tar:
            contents = [tar.extractfile(member).read() for member in tar]  # type: ignore[union-attr]
        for jpeg, label in zip(contents[::2], contents[1::2], strict=True):
            yield jpeg, int(label)


def write_files(records: Iterator[tuple[bytes, int]], out: Path) -> int:
    """A file for each image in the folder of its class."""
    count = 0
    for count, (jpeg, label) in enumerate(records, 1):
        target = out / str(label) / f"{count:08d}.jpg"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(jpeg)
    return count


def write_array_records(records: Iterator[tuple[bytes, int]], out: Path) -> int:
    """Files of ArrayRecord; a record is the label in 8 bytes, and a JPEG."""
    from array_record.python.array_record_module import ArrayRecordWriter

    count, writer = 0, None
    for count, (jpeg, label) in enumerate(records, 1):
        if count % _SHARD_RECORDS == 1:
            if writer is not None:
                writer.close()
            path = out / f"train-{count // _SHARD_RECORDS:05d}.array_record"
            writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
        writer.write(label.to_bytes(8, "little") + jpeg)  # type: ignore[union-attr]
    if writer is not None:
        writer.close()
    return count


def write_litdata(records: Iterator[tuple[bytes, int]], out: Path) -> int:
    """Chunks of LitData, of 64 MiB."""
    from litdata.streaming.writer import BinaryWriter

    count, writer = 0, BinaryWriter(str(out), chunk_bytes="64MB")
    for count, (jpeg, label) in enumerate(records, 1):
        writer[count - 1] = {"jpeg": jpeg, "label": label}
    writer.done()
    writer.merge()
    return count


def write_parquet(records: Iterator[tuple[bytes, int]], out: Path) -> int:
    """Files of Parquet, four of them so that workers have some each, without compression."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"jpeg": jpeg, "label": label} for jpeg, label in records]
    for number in range(4):
        table = pa.Table.from_pylist(rows[number::4])
        pq.write_table(
            table, out / f"train-{number}.parquet", row_group_size=256, compression="none"
        )
    return len(rows)


FORMS: dict[str, Callable[[Iterator[tuple[bytes, int]], Path], int]] = {
    "files": write_files,
    "array_records": write_array_records,
    "litdata": write_litdata,
    "parquet": write_parquet,
}


def main() -> None:
    """Arguments: FORM TARS OUT."""
    form, tars, out = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    Path(out).mkdir(parents=True)
    measure(lambda: FORMS[form](_records(Path(tars)), Path(out)))


if __name__ == "__main__":
    main()
