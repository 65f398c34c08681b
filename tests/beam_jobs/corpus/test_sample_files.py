"""MDS, LitData and ArrayRecord as sources: what their libraries write, and files with damage.

tests/interop/test_conversion.py reads what MDSWriter and LitData themselves have written.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import json
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reader
from beam_jobs.options import TextOptions
from beam_jobs.run import preprocess
from shard_format import encode_example
from tests.beam_jobs.corpus.conftest import EXAMPLE, JPEG, kept, reasons

Rows = Sequence[dict[str, bytes]]
IMAGES: Rows = [
    {"image": JPEG + bytes([number]), "label": b"ab"[number % 2 :][:1]} for number in range(40)
]


def _with_offsets(samples: list[bytes], header: bytes = b"") -> bytes:
    first = 4 * (len(samples) + 2) + len(header)
    offsets = np.cumsum([first, *map(len, samples)]).astype("<u4")
    return b"".join([struct.pack("<I", len(samples)), offsets.tobytes(), header, *samples])


def mds_file(path: Path, encodings: dict[str, str], rows: Rows) -> Path:
    """A shard as MDSWriter lays it out; every encoding here has values of any size."""
    names = sorted(encodings)
    header = {
        "column_names": names,
        "column_encodings": [encodings[name] for name in names],
        "column_sizes": [8 if encodings[name] == "int" else None for name in names],
        "format": "mds",
    }
    samples = []
    for row in rows:
        sizes = [len(row[name]) for name in names if encodings[name] != "int"]
        head = np.array(sizes, "<u4").tobytes()
        samples.append(head + b"".join(row[name] for name in names))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_with_offsets(samples, json.dumps(header).encode()))
    (path.parent / "index.json").write_text('{"shards": [], "version": 2}')
    return path


def litdata_chunk(path: Path, formats: dict[str, str], rows: Rows) -> Path:
    """A chunk and the index.json of its folder, as BinaryWriter lays them out."""
    samples = []
    for row in rows:
        head = np.array([len(row[name]) for name in formats], "<u4").tobytes()
        samples.append(head + b"".join(row[name] for name in formats))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_with_offsets(samples))
    leaf = {"type": None, "context": None, "children_spec": []}
    tree = {
        "type": "builtins.dict",
        "context": json.dumps(list(formats)),
        "children_spec": [leaf] * len(formats),
    }
    config = {
        "data_format": list(formats.values()),
        "data_spec": json.dumps([1, tree]),
        "item_loader": "PyTreeLoader",
    }
    index = {"chunks": [{"filename": path.name}], "config": config}
    (path.parent / "index.json").write_text(json.dumps(index))
    return path


def array_record(path: Path, encodings: dict[str, str], rows: Rows) -> Path:
    from array_record.python.array_record_module import ArrayRecordWriter

    path.parent.mkdir(parents=True, exist_ok=True)
    writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
    for row in rows:
        writer.write(encode_example(EXAMPLE, row))
    writer.close()
    return path


FORMS = [
    (mds_file, "mds", "shard.00000.mds", {"image": "jpeg", "label": "str"}),
    (litdata_chunk, "litdata", "chunk-0-0.bin", {"image": "bytes", "label": "str"}),
    (array_record, "array_record", "a.array_record-00000-of-00001", {}),
]


@pytest.mark.parametrize(("write", "kind", "name", "columns"), FORMS)
def test_every_sample_is_a_record(
    write: Callable[..., Path],
    kind: str,
    name: str,
    columns: dict[str, str],
    tmp_path: Path,
    records: Any,
) -> None:
    write(tmp_path / "source" / name, columns, IMAGES)
    results = kept(records(tmp_path / "source", label_column="label"))
    assert list(results) == [f"source/{name}/{number:09d}" for number in range(len(IMAGES))] or (
        list(results) == [f"{name}/{number:09d}" for number in range(len(IMAGES))]
    )
    assert records.source == kind
    assert list(results.values()) == [(row["image"], row["label"].decode()) for row in IMAGES]
    assert not [one for one in records.ignored if "index.json" not in one]


@pytest.mark.parametrize(("write", "kind", "name", "columns"), FORMS)
def test_damage_is_rejected_and_costs_no_other_file(
    write: Callable[..., Path],
    kind: str,
    name: str,
    columns: dict[str, str],
    tmp_path: Path,
    records: Any,
) -> None:
    path = write(tmp_path / "source" / name, columns, IMAGES)
    whole, choose = path.read_bytes(), random.Random(1)
    expected = [(row["image"], row["label"].decode()) for row in IMAGES]
    for case in range(40):
        data = bytearray(whole)
        if case % 2:
            data = data[: choose.randrange(len(data))]
        else:
            place = choose.randrange(4 * len(IMAGES) if case % 4 else len(data))
            data[place] ^= 1 << choose.randrange(8)
        path.write_bytes(data)
        results = records(tmp_path / "source", label_column="label", source=kind)
        for outcome in reasons(results).values():
            # The last one where the library finds no record, and says nothing.
            assert outcome in ("damaged-file", "damaged-record", "no-image", "no-images")
        # A format without checksums cannot see a flipped bit in an image.
        same = [one for one in kept(results).values() if one in expected]
        assert len(same) >= len(kept(results)) - 1


def test_columns_of_mds_have_their_types(tmp_path: Path) -> None:
    encodings = {
        "text": "str",
        "number": "int",
        "vector": "ndarray:float32:2",
        "ids": "ndarray:int32",
        "pickle": "pkl",
    }
    rows = [
        {
            "text": f"document {number}".encode(),
            "number": struct.pack("<q", -number),
            "vector": struct.pack("<2f", number, 0.5),
            "ids": bytes([1 << 2, number + 1]) + np.arange(number + 1, dtype="<i4").tobytes(),
            "pickle": b"\x80\x04.",
        }
        for number in range(20)
    ]
    mds_file(tmp_path / "source" / "shard.00000.mds", encodings, rows)
    keep = "number:int64,vector:float32[2],ids:int32[*]"
    options: dict[str, Any] = {"keep_columns": keep, "no_labels": True, "split": "train=1"}
    out = tmp_path / "set"
    preprocess(TextOptions((str(tmp_path / "source"),), str(out), no_report=True, **options))
    results = {record["text"]: record for record in reader.random_access(out)}
    for number in range(20):
        record = results[f"document {number}"]
        assert record["number"] == -number and record["vector"].tolist() == [number, 0.5]
        assert record["ids"].tolist() == list(range(number + 1))


@pytest.mark.parametrize("codec", ["zstd", "gz", "bz2"])
def test_compressed_shards_of_mds_are_read(codec: str, tmp_path: Path, records: Any) -> None:
    path = mds_file(tmp_path / "source" / "shard.00000.mds", FORMS[0][3], IMAGES)
    compress = {"gz": gzip.compress, "bz2": bz2.compress}.get(
        codec, functools.partial(pa.compress, codec=codec, asbytes=True)
    )
    path.with_name(f"{path.name}.{codec}").write_bytes(compress(path.read_bytes()))
    path.unlink()
    results = kept(records(tmp_path / "source", label_column="label"))
    assert [data for data, _ in results.values()] == [row["image"] for row in IMAGES]


def test_chunks_that_are_not_read_are_refused(tmp_path: Path, records: Any) -> None:
    columns = {"image": "bytes", "label": "str"}
    path = litdata_chunk(tmp_path / "source" / "chunk-0-0.bin", columns, IMAGES)
    index = path.parent / "index.json"
    whole = json.loads(index.read_text())
    for change in ({"item_loader": "TokensLoader"}, {"encryption": {"a": 1}}, {"data_spec": "["}):
        index.write_text(json.dumps(whole | {"config": whole["config"] | change}))
        results = records(tmp_path / "source", label_column="label", source="litdata")
        assert set(reasons(results).values()) <= {"unknown-chunks", "no-index"} and results
