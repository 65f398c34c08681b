"""Rows of column files are decoded by their bytes: a kilobyte may hold gigabytes of them."""

from __future__ import annotations

import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs.corpus.formats.arrow import Arrow
from beam_jobs.corpus.formats.base import FilePart, FoundRecord
from beam_jobs.corpus.formats.parquet import Parquet
from beam_jobs.corpus.formats.row_sizes import bounded, row_bytes
from beam_jobs.corpus.streams import FileRange
from beam_jobs.options import TextOptions
from beam_jobs.record_types import RECORD_TYPES
from tests.fixtures.proofs import proof

ROWS, VALUE = 3000, 1 << 20
SPARE = 600 << 20  # bytes that reading may take; the rows have 3 GiB

WORDS = ["a", "bbb", None, "cc"]
COLUMNS = [
    (pa.array(WORDS), [1, 3, 0, 2]),
    (pa.array(WORDS, pa.large_binary()), [1, 3, 0, 2]),
    (pa.array(["a" * 20, "b", None], pa.string_view()), [20, 1, 0]),
    (pa.array(WORDS).dictionary_encode(), [1, 3, 1, 2]),
    (
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "bb"])),
        [1, 1, 2],
    ),
    (pa.array([["aaa", "b"], None, []]), [28, 8, 8]),
    (pa.array([["aaa", "b"], ["c", "c"]], pa.list_(pa.string(), 2)), [28, 26]),
    (pa.array([[("k", "vv")], []], pa.map_(pa.string(), pa.string())), [19, 8]),
    (pa.array([{"a": "xx", "b": "y"}, None]), [3, 0]),
    (
        pa.ListViewArray.from_arrays(
            pa.array([0, 0], pa.int32()), pa.array([2, 1], pa.int32()), pa.array(["aaa", "b"])
        ),
        [28, 19],
    ),
    (pa.array([b"x" * 5, b"y" * 5], pa.binary(5)), [5, 5]),
]


@pytest.mark.parametrize(("column", "sizes"), COLUMNS, ids=[str(one[0].type) for one in COLUMNS])
def test_the_sizes_of_rows(column, sizes):
    assert row_bytes(column).tolist() == sizes
    assert row_bytes(column.slice(1)).tolist() == sizes[1:]


def test_numbers_have_a_size_too():
    for values in ([1, None, 3], [True, False, None], [1.5, 2.5, None]):
        assert row_bytes(pa.array(values)).min() > 0


def test_slices_end_before_the_limit_or_have_one_row():
    batch = pa.record_batch({"a": pa.array(["x" * size for size in (3, 4, 9, 1, 1, 1, 20)])})
    parts = [(some["a"].to_pylist(), sizes.tolist()) for some, sizes in bounded(batch, 8)]
    assert [sizes for _, sizes in parts] == [[3, 4], [9], [1, 1, 1], [20]]
    assert [text for texts, _ in parts for text in texts] == batch["a"].to_pylist()
    assert list(bounded(batch.slice(0, 0), 8)) == []


def _table(kind: str) -> pa.Table:
    """One value of a MiB, in every row."""
    value, zeros = pa.array(["ab " * (VALUE // 3)]), np.zeros(ROWS, np.int32)
    if kind == "views":
        data = value.buffers()[2]
        # Size, the first four bytes, the number of the buffer, the place in it.
        size = len(value[0].as_buffer())
        view = np.array([size, *np.frombuffer(data[:4], np.int32), 0, 0], np.int32)
        views = pa.py_buffer(np.tile(view, ROWS))
        text = pa.Array.from_buffers(pa.string_view(), ROWS, [None, views, data])
        return pa.table({"text": text})
    shared = pa.DictionaryArray.from_arrays(pa.array(zeros), value)
    if kind == "lists":
        offsets = pa.array(np.arange(ROWS + 1, dtype=np.int32))
        lists = pa.ListArray.from_arrays(offsets, shared)
        return pa.table({"text": pa.array(["short"] * ROWS), "label": lists})
    return pa.table({"text": shared})


def _write(kind: str, path: Path) -> None:
    table = _table("dictionary" if kind == "prefixes" else kind)
    if path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return
    how = {"compression": "zstd", "write_statistics": False}
    if kind == "prefixes":  # a value is the one before it
        how |= {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
        rows = pa.table({"text": ["ab " * (VALUE // 3)] * 100})
        with pq.ParquetWriter(path, rows.schema, **how) as writer:
            writer.write_table(rows)
        return
    pq.write_table(table, path, store_schema=kind == "schema", **how)


def _read(path: str) -> tuple[int, int]:
    """(records, their bytes) of a file, in a process that gets no more memory than SPARE."""
    options = TextOptions(("source",), "out", label_column="label")
    extractor = RECORD_TYPES["text"](options).extractor
    form = (Arrow if path.endswith(".arrow") else Parquet)(options, extractor)
    part = FilePart("file", lambda: FileRange(path.encode()))
    limit = psutil.Process().memory_info().vms + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    assert form.inspect(part)
    records = size = 0
    for record in form.find(part):
        assert isinstance(record, FoundRecord), record
        records += 1
        size += len(record.data)
    return records, size


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("dictionary", "a.parquet"),
        pytest.param("schema", "a.parquet", marks=proof),
        pytest.param("lists", "a.parquet", marks=proof),
        ("prefixes", "a.parquet"),
        pytest.param("dictionary", "a.arrow", marks=proof),
        ("views", "a.arrow"),
        ("lists", "a.arrow"),
    ],
)
def test_one_value_in_every_row(kind, name, tmp_path):
    path = tmp_path / name
    _write(kind, path)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        records, size = pool.submit(_read, str(path)).result()
    assert records == (100 if kind == "prefixes" else ROWS)
    assert size >= records * (5 if kind == "lists" else VALUE - 3)


def test_a_row_above_the_limit_is_rejected(tmp_path):
    table = pa.table({"text": ["short", "x" * 6_000_000, "also short"]})
    pq.write_table(table, tmp_path / "a.parquet")
    options = TextOptions(("source",), "out", max_record_bytes="5MB", no_labels=True)
    form = Parquet(options, RECORD_TYPES["text"](options).extractor)
    part = FilePart("file", lambda: FileRange(bytes(tmp_path / "a.parquet")))
    first, large, last = form.find(part)
    assert (first.data, last.data) == (b"short", b"also short")
    assert large.rejection.reason == "file-too-large"


def test_text_that_is_not_utf_8_costs_its_row(tmp_path):
    texts = pa.array([b"one", b"\xff\xfe", b"two"] * 2).view(pa.string())
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    options = TextOptions(("source",), "out", no_labels=True)
    form = Parquet(options, RECORD_TYPES["text"](options).extractor)
    part = FilePart("file", lambda: FileRange(bytes(tmp_path / "a.parquet")))
    assert [record.data for record in form.find(part)] == [b"one", b"\xff\xfe", b"two"] * 2


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_many_columns_take_linear_time(name, tmp_path):
    seconds = []
    for columns in (2500, 20_000):
        table = pa.table({f"c{number}": [1] for number in range(columns)} | {"text": ["words"]})
        path = tmp_path / f"{columns}-{name}"
        if path.suffix == ".arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        else:
            pq.write_table(table, path)
        options = TextOptions(("source",), "out", no_labels=True)
        extractor = RECORD_TYPES["text"](options).extractor
        form = (Arrow if path.suffix == ".arrow" else Parquet)(options, extractor)
        part = FilePart("file", lambda path=path: FileRange(bytes(path)))
        began = time.process_time()
        assert len(form.inspect(part)[0]) == columns + 1
        seconds.append(time.process_time() - began)
    assert seconds[1] < 32 * seconds[0]  # eight times the columns; 64 if it were quadratic
