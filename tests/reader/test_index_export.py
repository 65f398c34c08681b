"""Index files for other readers, next to what the raw bytes of the shards say."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reader
from shard_format import (
    DamageError,
    Feature,
    IndexWriter,
    InputError,
    Schema,
    ShardSetError,
    UsageError,
    load_manifest,
    open_index,
    verify,
)
from tests.fixtures.proofs import examples

MakeSet = Callable[..., Path]


def frames_of(shard: Path) -> list[tuple[int, int]]:
    """(offset, size) of every frame: length, its checksum, the payload, its checksum."""
    data, offset, frames = shard.read_bytes(), 0, []
    while offset < len(data):
        size = 8 + 4 + struct.unpack_from("<Q", data, offset)[0] + 4
        frames.append((offset, size))
        offset += size
    assert offset == len(data)
    return frames


def lines_of(file: Path) -> list[tuple[int, ...]]:
    text = file.read_text(encoding="ascii")
    assert text.endswith("\n")
    return [tuple(map(int, line.split(" "))) for line in text.splitlines()]


def test_a_file_for_every_shard(tiny: Path, tmp_path: Path) -> None:
    manifest = load_manifest(tiny)
    done = reader.export_index(tiny, "dali", tmp_path / "new" / "folder")
    assert done.folder == tmp_path / "new" / "folder"
    assert (done.records, done.root_hash) == (131, manifest.root_hash)
    for name, split in manifest.splits.items():
        names = [f"{shard.file}.idx" for shard in split.shards]
        assert [file.name for file in done.files[name]] == names
        for file, shard in zip(done.files[name], split.shards, strict=True):
            assert lines_of(file) == frames_of(tiny / shard.file)
    assert len(list(done.folder.iterdir())) == 6


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))
@given(
    st.lists(
        st.sampled_from([0, 1, 110, 111, 112, 113, 127, 128, 300, 16_383, 70_000]),
        min_size=1,
        max_size=130,
    )
)
def test_every_size_of_record(
    write_records: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
) -> None:
    schema = Schema("text", (Feature("text", "text"),))
    folder = tmp_path_factory.mktemp("sizes")
    directory = write_records(
        schema, {"train": [({"text": "x" * size}, {}) for size in sizes]}, name=str(folder / "set")
    )
    files = reader.export_index(directory).files["train"]
    assert sum(len(lines_of(file)) for file in files) == len(sizes)
    for file in files:
        assert lines_of(file) == frames_of(directory / file.stem)


def test_they_lie_next_to_the_index_and_are_no_part_of_the_set(make_set: MakeSet) -> None:
    directory = make_set({"train": (3, 2), "test": ()})
    done = reader.export_index(directory)
    assert done.folder == directory / "index" and done.files["test"] == []
    assert verify(directory)[1] == []
    # `set/*train*` must go on to mean the shards.
    assert len(list(directory.glob("*train*"))) == 2
    reader.export_index(directory)
    assert len(list(done.folder.iterdir())) == 4


def test_building_the_set_again_removes_them(
    make_images: Callable[..., Path], build: Callable[..., Any]
) -> None:
    source = make_images()
    build(source, num_shards=2)
    directory = source.parent / "set"
    before = load_manifest(directory).root_hash
    done = reader.export_index(directory)
    (directory / "manifest.json").unlink()
    (directory / ".shardmill").mkdir()  # as of a build that was killed
    build(source, num_shards=2)
    assert load_manifest(directory).root_hash == before
    assert not any(file.exists() for file in done.files["train"])


def test_a_failed_write_leaves_the_older_file(
    make_set: MakeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = make_set({"train": (3,)})
    (file,) = reader.export_index(directory).files["train"]
    before = file.read_bytes()

    def full(partial: Path, final: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(
        InputError, match=r"Cannot write to .*\.idx: 'No space left on device'.*--out"
    ):
        reader.export_index(directory)
    assert file.read_bytes() == before
    assert sorted(path.suffix for path in file.parent.iterdir()) == [".arrow", ".idx"]


def test_a_file_where_a_folder_should_be_is_reported(make_set: MakeSet, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot write to "):
        reader.export_index(make_set({"train": (3,)}), out=tmp_path / "file")


def test_mistakes_are_reported(make_set: MakeSet, tmp_path: Path) -> None:
    directory = make_set({"train": (3,)})
    with pytest.raises(UsageError, match=r"Unknown format 'dalli'.*mean 'dali'.* Choices: dali"):
        reader.export_index(directory, "dalli")
    with pytest.raises(ShardSetError, match="There is no directory"):
        reader.export_index(tmp_path / "nothing")


def test_shards_must_be_those_of_the_manifest(make_set: MakeSet) -> None:
    directory = make_set({"train": (3, 4)})
    shard = sorted(directory.glob("*.tfrecord-*"))[1]
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    with pytest.raises(
        DamageError, match=f"has {len(whole) - 1} bytes, but {len(whole)} in the manifest"
    ):
        reader.export_index(directory)
    shard.unlink()
    with pytest.raises(ShardSetError, match=f"No shard file {shard}"):
        reader.export_index(directory)


def _first_row_is(column: str, value: int) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        numbers = table[column].to_numpy().copy()
        numbers[0] = value
        place = table.schema.get_field_index(column)
        return table.set_column(place, column, pa.array(numbers, table.schema.field(column).type))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.slice(1), "4 rows for 5 records"),
        (_first_row_is("shard", 1), "tiny-train.tfrecord-00000-of-00002 do not fill"),
        (_first_row_is("offset", 1), "tiny-train.tfrecord-00000-of-00002 do not fill"),
        (_first_row_is("length", 17), "tiny-train.tfrecord-00000-of-00002 do not fill"),
    ],
)
def test_an_index_that_is_not_that_of_the_shards_is_refused(
    make_set: MakeSet, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    directory = make_set({"train": (3, 2)})
    path = directory / "index" / "train.arrow"
    table = change(open_index(path)).combine_chunks()
    extra = [field for field in table.schema if field.name in ("width", "height")]
    with IndexWriter(path.with_name("new"), extra) as writer:
        writer.append(table)
    path.with_name("new").replace(path)
    with pytest.raises(DamageError, match=message):
        reader.export_index(directory)
    assert [file.name for file in path.parent.iterdir()] == ["train.arrow"]


@pytest.mark.interop
def test_dali_reads_every_record(tiny: Path, tmp_path: Path) -> None:
    from nvidia.dali import fn, pipeline_def, tfrecord

    files = reader.export_index(tiny, out=tmp_path).files["train"]

    @pipeline_def(batch_size=11, num_threads=1, device_id=None)
    def records() -> Any:
        columns = fn.readers.tfrecord(
            path=[str(tiny / file.stem) for file in files],
            index_path=[str(file) for file in files],
            features={
                "image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                "label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
            },
        )
        return columns["image"], columns["label"]

    pipeline = records()
    pipeline.build()
    data = reader.random_access(tiny, decode=False)
    for start in range(0, 110, 11):
        images, labels = pipeline.run()
        for place, record in enumerate(data[start : start + 11]):
            assert bytes(np.array(images[place])) == record["image"]
            assert int(np.array(labels[place])[0]) == record["label"]
