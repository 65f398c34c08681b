"""Lookups in the index inside a graph: any layout of the file, and what is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import reader
from reader.graph.columns import IndexColumns
from shard_format import DamageError
from tests.fixtures.proofs import examples


def write_index(path: Path, batches: list[pa.RecordBatch]) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return path


@settings(max_examples=examples(40))
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any),
    skipped=st.integers(0, 5),
    name=st.text("abcdefgh", max_size=9),
)
def test_any_layout_of_record_batches(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], skipped: int, name: str
) -> None:
    """Columns of both widths behind strings of any length; slices; batches without a row."""
    rows = sum(sizes)
    values = np.random.default_rng(rows).integers(-(2**62), 2**62, rows + skipped)
    table = pa.table(
        {
            "name": [name[: n % 9] for n in range(rows + skipped)],
            "small": pa.array((values >> 32).astype(np.int32)),
            "flag": [n % 3 == 0 for n in range(rows + skipped)],
            "large": pa.array(values),
        }
    )
    starts = skipped + np.cumsum(sizes) - sizes
    batches = [
        table.slice(start, size).combine_chunks().to_batches()
        if size
        else [pa.RecordBatch.from_pylist([], schema=table.schema)]
        for start, size in zip(starts.tolist(), sizes, strict=True)
    ]
    path = tmp_path_factory.mktemp("index") / "i.arrow"
    write_index(path, [batch for group in batches for batch in group])
    graph = IndexColumns([path], ("large", "small"))
    assert graph.num_records == rows
    records = np.random.default_rng(1).integers(0, rows, 20)
    lookup = tf.function(lambda name, records: graph.column(name, records))
    for column, expected in (("large", values[skipped:]), ("small", values[skipped:] >> 32)):
        looked_up = lookup(column, tf.constant(records))
        assert looked_up.dtype == tf.int64 and (looked_up.numpy() == expected[records]).all()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None, 3]), "int64 with 1 nulls, not integers without nulls, in"),
        (pa.array([1.0, 2, 3]), "is double"),
        (pa.array(["1", "2", "3"]), "is string"),
        (pa.array([1, 2, 3], pa.uint64()), "is uint64"),
        (pa.array([1, 1, 1]).dictionary_encode(), "is dictionary"),
    ],
)
def test_a_column_that_is_none_of_whole_numbers(
    tmp_path: Path, column: pa.Array, message: str
) -> None:
    batch = pa.RecordBatch.from_arrays([column], ["c"])
    path = write_index(tmp_path / "i.arrow", [batch])
    with pytest.raises(DamageError, match=f"{message}.*Build the set again"):
        IndexColumns([path], ("c",))


def test_a_compressed_column_is_refused(tmp_path: Path) -> None:
    """Its numbers do not lie in the file, and a lookup would read anything."""
    table = pa.table({"c": np.arange(1000)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(tmp_path / "i.arrow"), table.schema, options=options) as writer:
        writer.write_table(table)
    with pytest.raises(DamageError, match="is compressed"):
        IndexColumns([tmp_path / "i.arrow"], ("c",))


@pytest.fixture
def index(make_set: Callable[..., Path]) -> Path:
    """Of a set that may be spoilt: three shards of ten records each."""
    return make_set({"train": (10, 10, 10)}) / "index" / "train.arrow"


def edited(index: Path, column: str, change: Callable[[list[Any]], list[Any]]) -> None:
    table = pa.ipc.open_file(index.read_bytes()).read_all()
    place = table.schema.get_field_index(column)
    field = table.schema.field(place).with_nullable(True)
    values = pa.array(change(table[column].to_pylist()), field.type)
    write_index(index, table.set_column(place, field, values).to_batches())


def load(index: Path, **options: Any) -> reader.Stream:
    return reader.load(
        index.parents[1], batch_size=6, image_size=8, cache="off", epochs=1, **options
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_index(index: Path, share: float) -> None:
    content = index.read_bytes()
    index.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamageError, match=f"{index}"):
        load(index)


def test_an_index_of_other_rows(index: Path) -> None:
    table = pa.ipc.open_file(index.read_bytes()).read_all()
    write_index(index, table.slice(0, 29).to_batches())
    with pytest.raises(DamageError, match=r"29 rows for 30 records in"):
        load(index)


@pytest.mark.parametrize("column", ["offset", "length"])
def test_an_index_with_a_null(index: Path, column: str) -> None:
    edited(index, column, lambda values: [*values[:-1], None])
    with pytest.raises(DamageError, match=f"Column {column!r} of the index is .*, not integers"):
        load(index)


@pytest.mark.parametrize("column", ["offset", "length"])
@pytest.mark.parametrize("wrong", [-1, 7, 1 << 31, 1 << 60, -(1 << 63), (1 << 63) - 1])
def test_an_index_that_points_astray(index: Path, column: str, wrong: int) -> None:
    """It ends the iteration with an error, not the process, and gives no wrong record."""
    edited(index, column, lambda values: [*values[:15], wrong, *values[16:]])
    stream = load(index, shuffle="off")
    read: list[int] = []
    try:
        for _, labels in stream.dataset:
            read += labels.numpy().tolist()
    except tf.errors.UnknownError as error:
        assert (
            f"{index}" in str(error)
            or "does not match" in str(error)
            or "a record has" in str(error)
        )
        assert len(read) < 30
    else:  # a length that is too short is a hint on how much to read at a time
        assert (column, wrong, len(read)) == ("length", 7, 30)
    assert read == list(range(len(read)))


@pytest.mark.parametrize("sample", ["balanced", {"class1": 1.0}])
@pytest.mark.parametrize("wrong", [-1, 30, 1 << 62])
def test_an_index_with_a_label_that_is_no_class(index: Path, sample: Any, wrong: int) -> None:
    """A class of records that the set does not know would be drawn like all others."""
    edited(index, "label", lambda values: [*values[:-1], wrong])
    with pytest.raises(
        DamageError, match=rf"labels .*{wrong}.* \[0, 30\) .*Run 'shardmill verify'"
    ):
        load(index, sample=sample)


GROWTH = """
import sys
from pathlib import Path
import numpy as np, pyarrow as pa, tensorflow as tf
from reader.graph.columns import IndexColumns
from reader.records.readers import LOCATION_COLUMNS
path, rows = Path(sys.argv[1]), int(sys.argv[2])
index = IndexColumns([path], LOCATION_COLUMNS)
assert index.num_records == rows
def look(n):
    records = tf.range(n * 1000, n * 1000 + 1000, dtype=tf.int64) * 7919 % rows
    return index.column("offset", records) - 1000 * records
for found in tf.data.Dataset.range(20).map(look):
    assert not found.numpy().any()
print([int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")][0])
"""


@pytest.mark.proof
def test_memory_does_not_grow_with_the_index(tmp_path: Path, repository: Path) -> None:
    """128 MB of rows, of which a graph looks at some, take no more than 3 MB do."""
    taken = []
    for rows in (200_000, 8_000_000):
        path = tmp_path / "index.arrow"
        schema = pa.schema([("offset", pa.int64()), ("length", pa.int64())])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for start in range(0, rows, 200_000):
                offsets = np.arange(start, start + 200_000) * 1000
                columns = [pa.array(offsets), pa.array(np.full(200_000, 1000))]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        run = subprocess.run(
            [sys.executable, "-c", GROWTH, str(path), str(rows)],
            capture_output=True,
            text=True,
            cwd=repository,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-2000:]
        taken.append(int(run.stdout))
        path.unlink()
    assert taken[1] - taken[0] < 40_000  # kB


def test_places_far_into_a_large_index(tmp_path: Path) -> None:
    """A sparse file beyond 2**31 bytes: what is computed are 64-bit numbers."""
    values = np.arange(5) + 2**40
    path = write_index(
        tmp_path / "i.arrow", [pa.RecordBatch.from_arrays([pa.array(values)], ["offset"])]
    )
    graph = IndexColumns([path], ("offset",))
    place = int(graph._bases["offset"][0])
    content, gap = path.read_bytes(), 3 << 30
    with path.open("r+b") as file:
        file.truncate(0)
        file.seek(gap)
        file.write(content)
    # The same file behind 3 GiB of zeros: the column lies so many places further.
    graph._parts[0].size = gap + len(content)
    graph._bases["offset"] = tf.constant([place + gap // 8], tf.int64)
    at = tf.function(lambda records: graph.column("offset", records))(tf.range(5, dtype="int64"))
    assert (at.numpy() == values).all()
