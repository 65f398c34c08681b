"""Time and memory of listing: `python -m benchmarks.listing [--count 1000000]`.

Every kind of source is listed with a tenth of the records and with all of them: a linear listing
takes ten times as long. Records are a few bytes, so only listing is measured. CPU seconds and
memory of the process include Python and its packages. Results go to
benchmarks/results/listing.json.
"""

from __future__ import annotations

import argparse
import datetime
import io
import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import machine, run
from shard_format import Feature, Schema, encode_example, frame

_HERE = Path(__file__).parent
_IMAGE = b"not an image"
_SCHEMA = Schema("image", (Feature("image", "bytes"), Feature("label", "int64")))
_ROW_GROUP = 1000  # rows, as Hugging Face writes them


def main() -> None:
    """Creates the corpora, lists each one, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.listing", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="records of a corpus")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "listing")
    parser.add_argument("--only", choices=list(_CORPORA), action="append")
    arguments = parser.parse_args()
    kinds: dict[str, object] = {}
    heads = ("records", 10), ("CPU s", 9), ("us/record", 11), ("process s", 11), ("peak MiB", 10)
    print(f"{'source':<24}" + "".join(f"{head:>{width}}" for head, width in heads))
    for name, make in _CORPORA.items():
        if arguments.only and name not in arguments.only:
            continue
        kinds[name] = [
            _listed(name, make, count, arguments.work)
            for count in (arguments.count // 10, arguments.count)
        ]
    results = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.listing --count {arguments.count}",
        "machine": machine(),
        "sources": kinds,
    }
    file = _HERE / "results" / "listing.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {file.relative_to(_HERE.parent)}")


def _listed(
    name: str, make: Callable[[Path, int], tuple[Path, str]], count: int, work: Path
) -> dict[str, object]:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source, labels = make(work, count)
    found = run("list_corpus", source, work / "out", labels)
    shutil.rmtree(work)
    per_record = found.seconds / count * 1e6
    print(
        f"{name:<24}{count:>10,}{found.seconds:>9.2f}{per_record:>11.2f}"
        f"{found.wall_seconds:>11.2f}{found.peak_mib:>10,.0f}",
        flush=True,
    )
    return {
        "records": count,
        "cpu_seconds": round(found.seconds, 2),
        "process_seconds": round(found.wall_seconds, 2),
        "peak_mib": round(found.peak_mib, 1),
    }


def _names(count: int) -> list[str]:
    return [f"class{number % 100:02d}/{number:08d}.jpg" for number in range(count)]


def _class_folders(work: Path, count: int) -> tuple[Path, str]:
    for number in range(100):
        (work / "corpus" / f"class{number:02d}").mkdir(parents=True)
    for name in _names(count):
        _touch(f"{work}/corpus/{name}")
    return work / "corpus", ""


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def _one_folder(work: Path, count: int) -> tuple[Path, str]:
    (work / "corpus" / "class").mkdir(parents=True)
    for number in range(count):
        _touch(f"{work}/corpus/class/{number:08d}.jpg")
    return work / "corpus", ""


def _table(work: Path, count: int) -> tuple[Path, str]:
    source, _ = _class_folders(work, count)
    with (work / "labels.csv").open("w") as file:
        file.write("path,label\n")
        for number, name in enumerate(reversed(_names(count))):
            file.write(f"{name},{number % 100}\n")
    return source, str(work / "labels.csv")


def _tar(suffix: str, companions: bool) -> Callable[[Path, int], tuple[Path, str]]:
    def make(work: Path, count: int) -> tuple[Path, str]:
        path = work / f"corpus{suffix}"
        mode = "w|gz" if suffix.endswith("gz") else "w|"
        with tarfile.open(str(path), mode, format=tarfile.USTAR_FORMAT) as archive:
            for name in _names(count):
                _add(archive, name, _IMAGE)
                if companions:
                    _add(archive, name.replace(".jpg", ".cls"), b"7")
                archive.members.clear()  # type: ignore[attr-defined]
        return path, ""

    return make


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _zip(work: Path, count: int) -> tuple[Path, str]:
    with zipfile.ZipFile(work / "corpus.zip", "w") as archive:
        for name in _names(count):
            archive.writestr(name, _IMAGE)
    return work / "corpus.zip", ""


def _columns(count: int) -> pa.Table:
    labels = pa.array([number % 100 for number in range(count)])
    return pa.table({"image": pa.array([_IMAGE] * count), "label": labels})


def _parquet(work: Path, count: int) -> tuple[Path, str]:
    pq.write_table(_columns(count), work / "corpus.parquet", row_group_size=_ROW_GROUP)
    return work / "corpus.parquet", ""


def _arrow(work: Path, count: int) -> tuple[Path, str]:
    table = _columns(count)
    with pa.ipc.new_stream(str(work / "corpus.arrow"), table.schema) as writer:
        writer.write_table(table, _ROW_GROUP)
    return work / "corpus.arrow", ""


def _tfrecord(work: Path, count: int) -> tuple[Path, str]:
    framed = frame(encode_example(_SCHEMA, {"image": _IMAGE, "label": 7}))
    with (work / "corpus.tfrecord").open("wb") as file:
        for _ in range(count):
            file.write(framed)
    return work / "corpus.tfrecord", ""


def _idx(work: Path, count: int) -> tuple[Path, str]:
    size = count.to_bytes(4, "big")
    shape = b"\0\0\x08\x03" + size + (4).to_bytes(4, "big") * 2
    (work / "train-images-idx3-ubyte").write_bytes(shape + bytes(16 * count))
    (work / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + size + bytes(count))
    return work / "train-images-idx3-ubyte", ""


_CORPORA = {
    "class folders, 100": _class_folders,
    "class folders, one": _one_folder,
    "table, CSV": _table,
    "tar, class folders": _tar(".tar", companions=False),
    "tar, WebDataset": _tar(".tar", companions=True),
    "tar.gz, class folders": _tar(".tar.gz", companions=False),
    "zip": _zip,
    "Parquet": _parquet,
    "Arrow stream": _arrow,
    "TFRecord": _tfrecord,
    "IDX": _idx,
}


if __name__ == "__main__":
    main()
