"""Damage costs the record it lies in, and has an address."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reader
from shard_format import (
    DamageError,
    Feature,
    IndexWriter,
    Schema,
    ShardSetError,
    load_manifest,
    open_index,
)

MakeSet = Callable[..., Path]


def _failures(data: reader.RandomAccess) -> dict[int, str]:
    """The message of every record that cannot be read."""
    messages = {}
    for number in range(len(data)):
        try:
            assert data[number]["label"] == number
        except DamageError as error:
            messages[number] = str(error)
    return messages


@pytest.fixture(scope="module")
def victim(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("victim") / "set"
    return Path(shutil.copytree(tiny, directory))


@given(st.data())
def test_a_flipped_bit_costs_its_record_alone(victim: Path, draw: st.DataObject) -> None:
    shard = load_manifest(victim).splits["train"].shards[1]
    position = draw.draw(st.integers(0, shard.bytes - 1))
    file = victim / shard.file
    whole = file.read_bytes()
    broken = bytearray(whole)
    broken[position] ^= 1 << draw.draw(st.integers(0, 7))
    file.write_bytes(broken)
    try:
        messages = _failures(reader.random_access(victim, decode=False))
    finally:
        file.write_bytes(whole)
    index = open_index(victim / "index" / "train.arrow")
    row = next(
        number
        for number in range(50, 91)
        if 0 <= position - index["offset"][number].as_py() < index["length"][number].as_py()
    )
    assert list(messages) == [row]
    for word in (str(file), f"at byte {index['offset'][row]} ", f"'r{row}'", "shardmill verify"):
        assert word in messages[row]


@given(st.integers(0, 10**6))
def test_a_truncated_shard_costs_what_is_cut(victim: Path, cut: int) -> None:
    shard = load_manifest(victim).splits["train"].shards[1]
    file, size = victim / shard.file, cut % shard.bytes
    whole = file.read_bytes()
    file.write_bytes(whole[:size])
    try:
        messages = _failures(reader.random_access(victim, decode=False))
    finally:
        file.write_bytes(whole)
    index = open_index(victim / "index" / "train.arrow")
    ends = [index["offset"][n].as_py() + index["length"][n].as_py() for n in range(50, 91)]
    assert list(messages) == [50 + n for n, end in enumerate(ends) if end > size]
    assert all("The file ends after" in message for message in messages.values())


def test_a_missing_shard_costs_its_records(make_set: MakeSet) -> None:
    directory = make_set({"train": (4, 4)})
    data = reader.random_access(directory)
    file = directory / load_manifest(directory).splits["train"].shards[0].file
    file.unlink()
    with pytest.raises(ShardSetError, match=f"No shard file {file}.*'r1'"):
        data[1]
    assert data[4]["label"] == 4


def test_a_shard_that_is_a_folder_is_reported(make_set: MakeSet) -> None:
    directory = make_set({"train": (4,)})
    file = next(directory.glob("*.tfrecord-*"))
    file.unlink()
    file.mkdir()
    with pytest.raises(ShardSetError, match="Is a directory"):
        reader.random_access(directory)[0]


def _rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = open_index(path)
    extra = [field for field in table.schema if field.name in ("width", "height")]
    changed = change(table).combine_chunks()
    with IndexWriter(path.with_name("new"), extra) as writer:
        writer.append(changed)
    path.with_name("new").replace(path)


def test_an_index_of_other_length_is_refused(make_set: MakeSet) -> None:
    directory = make_set({"train": (4, 4)})
    _rewrite(directory / "index" / "train.arrow", lambda table: table.slice(0, 7))
    with pytest.raises(DamageError, match=r"7 rows for 8 records in .*train\.arrow"):
        reader.random_access(directory)


@pytest.mark.parametrize(
    ("column", "value"),
    [("shard", 2), ("shard", -1), ("offset", -1), ("offset", 1 << 60), ("length", 3)]
    + [("length", 1 << 60), ("length", (1 << 63) - 1), ("length", -1)],
)
def test_an_index_that_points_elsewhere_is_reported(
    make_set: MakeSet, column: str, value: int
) -> None:
    directory = make_set({"train": (4, 4)})

    def change(table: pa.Table) -> pa.Table:
        numbers = table[column].to_numpy().copy()
        numbers[2] = value
        place = table.schema.get_field_index(column)
        return table.set_column(place, column, pa.array(numbers, table.schema.field(column).type))

    _rewrite(directory / "index" / "train.arrow", change)
    data = reader.random_access(directory)
    with pytest.raises(
        DamageError, match=r"Row 2 of the index points to .*, outside of the split in .*arrow"
    ):
        data[2]
    assert data[3]["label"] == 3


@pytest.mark.parametrize("offset", [-1, 1])
def test_an_index_that_is_off_by_one_is_reported(make_set: MakeSet, offset: int) -> None:
    directory = make_set({"train": (4,)})

    def change(table: pa.Table) -> pa.Table:
        numbers = table["offset"].to_numpy() + np.array([0, 0, offset, 0])
        place = table.schema.get_field_index("offset")
        return table.set_column(place, "offset", pa.array(numbers))

    _rewrite(directory / "index" / "train.arrow", change)
    assert list(_failures(reader.random_access(directory))) == [2]


def test_a_set_that_was_replaced_is_not_mixed_up(make_set: MakeSet, tmp_path: Path) -> None:
    directory = make_set({"train": (4,)})
    pickled = pickle.dumps(reader.random_access(directory))
    shutil.rmtree(directory)
    make_set({"train": (5,)})
    with pytest.raises(ShardSetError, match=r"has changed since it was opened.*Open it again"):
        pickle.loads(pickled)[0]


@pytest.mark.parametrize(
    ("declared", "values", "message"),
    [
        (Feature("value", "int64"), {"value": [1, 2]}, "'value' is not .* found 2 values"),
        (Feature("value", "int64"), {"value": []}, "'value' is not .* found 0 values"),
        (Feature("other", "int64"), {"value": [1]}, "'other' is not .* found none"),
        (Feature("value", "text"), {"value": [1]}, "'value' is not .* found int"),
        (
            Feature("value", "int64", (3,)),
            {"value": [1, 2]},
            "'value' is not .* found 2 values",
        ),
    ],
)
def test_a_record_of_another_schema_is_reported(
    write_records: Callable[..., Path], declared: Feature, values: dict[str, object], message: str
) -> None:
    stored = Schema("text", (Feature("value", "int64", (-1,)),))
    directory = write_records(stored, {"train": [(values, {})]})
    _redeclare(directory, Schema("text", (declared,)))
    with pytest.raises(DamageError, match=message) as caught:
        reader.random_access(directory)[0]
    assert "tfrecord-00000-of-00001 at byte 0 (record '0')" in str(caught.value)


@pytest.mark.parametrize("stored", [b"no picture", b""])
@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp", "raw"])
def test_a_image_that_is_none_is_reported(
    write_records: Callable[..., Path], encoding: str, stored: bytes
) -> None:
    features = (Feature("image", "image", (-1, -1, 3), encoding),)
    features += (Feature("height", "int64"), Feature("width", "int64"))
    record = ({"image": stored, "height": 2, "width": 2}, {})
    directory = write_records(Schema("image", features), {"train": [record]})
    with pytest.raises(
        DamageError, match=rf"{len(stored)} bytes of feature .* are not an image.*at byte 0"
    ):
        reader.random_access(directory)[0]
    assert reader.random_access(directory, decode=False)[0]["image"] == stored


def _redeclare(directory: Path, schema: Schema) -> None:
    import dataclasses

    manifest = dataclasses.replace(load_manifest(directory), schema=schema)
    (directory / "manifest.json").write_text(manifest.to_text())
