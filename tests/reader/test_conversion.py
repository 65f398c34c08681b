"""`reader.convert`: the records of a set in other formats, also where it is killed."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tarfile
import tomllib
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import reader
from beam_jobs.options import ImageOptions
from beam_jobs.run import preprocess
from foundation.processes.children import ChildProcess
from reader.conversion import job
from reader.conversion.base import ConversionPiece, Record
from reader.conversion.formats import CONVERSION_FORMATS
from reader.conversion.formats.files import _class_folder
from shard_format import (
    DamageError,
    Feature,
    InputError,
    Schema,
    UsageError,
    encode_example,
    frame,
    load_manifest,
)
from shard_format.tfrecord import read_records
from tests.fixtures.killed_commands import KILLED, Commands
from tests.fixtures.proofs import proofs


def files_in(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, by its name."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def records_of(directory: Path, split: str) -> Iterator[dict[str, Any]]:
    """The records with the checksums of their examples."""
    examples = (
        example
        for shard in load_manifest(directory).splits[split].shards
        for _, example in read_records(directory / shard.file)
    )
    records = reader.random_access(directory, split, decode=False)
    for record, example in zip(records, examples, strict=True):
        yield {**record, "record_crc32c": google_crc32c.value(example)}


def test_images_become_files_in_folders_of_their_classes(tiny: Path, tmp_path: Path) -> None:
    done = reader.convert(tiny, "files", tmp_path / "out", shard_bytes=40_000)
    manifest = load_manifest(tiny)
    assert done.root_hash == manifest.root_hash
    names = manifest.schema["label"].class_names
    for split, info in manifest.splits.items():
        folder = tmp_path / "out" / split
        lines = (folder / "metadata.jsonl").read_text().splitlines()
        assert done.splits[split]["records"] == len(lines) == info.records
        for number, (line, record) in enumerate(
            zip(map(json.loads, lines), records_of(tiny, split), strict=True)
        ):
            name = names[record["label"]]
            assert line.pop("file_name") == f"{name}/{number:09d}.jpg"
            assert (folder / name / f"{number:09d}.jpg").read_bytes() == record.pop("image")
            assert line == record | {"label_name": name}
        images = list(folder.rglob("*.jpg"))
        assert len(images) == info.records
    assert not (tmp_path / "out" / ".shardmill").exists()


@pytest.mark.parametrize(
    ("name", "folder"),
    [("a/b", "a%2Fb"), ("..", "%2E%2E"), ("", "%"), ("c%", "c%25"), ("é", "é"), ("x" * 300, "%0")],
)
def test_a_class_is_the_name_of_a_folder_on_every_system(name: str, folder: str) -> None:
    schema = Schema("image", (Feature("label", "class_label", class_names=(name,)),))
    record = Record(0, b"", 0, {"label": 0})
    assert _class_folder(schema, ConversionPiece("train", 0, 1, 0, 1), record) == folder


def test_texts_become_lines(text_set: Any, tmp_path: Path) -> None:
    directory = text_set(train=[(f"a text, {number}", number % 2) for number in range(50)])
    done = reader.convert(directory, "files", tmp_path / "out", shard_bytes=700)
    files = sorted((tmp_path / "out").glob("train-*.jsonl"))
    assert done.splits["train"]["files"] == len(files) > 2
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    for line, record in zip(lines, records_of(directory, "train"), strict=True):
        assert line.pop("label_name") == f"class{line['label']}"
        assert line == record
    counts = [len(file.read_text().splitlines()) for file in files]
    assert max(counts) - min(counts) <= 1


def test_parquet_has_the_features_of_the_hub(any_set: Path, tmp_path: Path) -> None:
    reader.convert(any_set, "parquet", tmp_path / "out", shard_bytes=20_000)
    for split in load_manifest(any_set).splits:
        files = sorted((tmp_path / "out" / "data").glob(f"{split}-*"))
        rows = ds.dataset(files).to_table().to_pylist()
        for row, record in zip(rows, records_of(any_set, split), strict=True):
            assert row["id"] == record["id"]
            assert row["photo"] == {"bytes": record["photo"], "path": None}
            assert row["deep"]["numbers"] == record["deep"]["numbers"].tolist()
            assert np.array_equal(np.reshape(row["boxes"], (-1, 4)), record["boxes"])
            assert row["record_crc32c"] == record["record_crc32c"]
        metadata = pq.read_metadata(files[0])
        features = json.loads(metadata.metadata[b"huggingface"])["info"]["features"]
        assert features["photo"] == {"_type": "Image"}
        assert features["deep"]["photo"] == {"_type": "Image"}
        columns = [metadata.row_group(0).column(at) for at in range(metadata.num_columns)]
        codecs = {column.path_in_schema: column.compression for column in columns}
        assert codecs["photo.bytes"] == "UNCOMPRESSED" and codecs["text"] == "ZSTD"


def test_tar_files_are_the_same_bytes_each_time(any_set: Path, tmp_path: Path) -> None:
    for workers, out in ((1, "one"), (3, "three")):
        reader.convert(any_set, "webdataset", tmp_path / out, shard_bytes=20_000, workers=workers)
    assert files_in(tmp_path / "one") == files_in(tmp_path / "three")
    with tarfile.open(tmp_path / "one" / "test-000000.tar") as tar:
        record = next(records_of(any_set, "test"))
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert members["000000000.photo.png"] == record["photo"]
    assert np.array_equal(np.load(io.BytesIO(members["000000000.pixels.npy"])), record["pixels"])
    assert json.loads(members["000000000.json"])["id"] == record["id"]


def test_array_records_are_the_examples_of_the_set(any_set: Path, tmp_path: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordReader

    reader.convert(any_set, "array_record", tmp_path / "out", shard_bytes=3_000)
    manifest = load_manifest(any_set)
    for split, info in manifest.splits.items():
        examples = [
            example for shard in info.shards for _, example in read_records(any_set / shard.file)
        ]
        files = sorted((tmp_path / "out").glob(f"{manifest.name}-{split}.array_record-*"))
        copies: list[bytes] = []
        for file in files:
            source = ArrayRecordReader(str(file))
            copies += source.read_all()
            source.close()
        assert copies == examples and len(files) > 1


def test_tfds_reads_array_records(tiny: Path, tmp_path: Path) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    reader.convert(tiny, "array_record", tmp_path / "out", shard_bytes=40_000)
    builder = tfds.builder_from_directory(str(tmp_path / "out"))
    names = load_manifest(tiny).schema["label"].class_names
    assert tuple(builder.info.features["label"].names) == names
    for split in load_manifest(tiny).splits:
        for one, record in zip(
            builder.as_data_source(split), reader.random_access(tiny, split), strict=True
        ):
            assert one["id"].decode() == record["id"] and one["label"] == record["label"]
            assert one["image"].shape == record["image"].shape


def test_a_condition_selects_records(tiny: Path, tmp_path: Path) -> None:
    done = reader.convert(tiny, "parquet", tmp_path / "out", where="label == 1")
    for split in done.splits:
        chosen = [one for one in records_of(tiny, split) if one["label"] == 1]
        rows = ds.dataset(tmp_path / "out" / "data").to_table().to_pylist()
        assert done.splits[split]["records"] == len(chosen)
        assert [row["id"] for row in rows if row["id"] in {one["id"] for one in chosen}] == [
            one["id"] for one in chosen
        ]
    note = json.loads((tmp_path / "out" / "conversion.json").read_text())
    assert note["where"] == "label == 1"


def test_the_same_call_again_does_nothing(tiny: Path, tmp_path: Path) -> None:
    first = reader.convert(tiny, "parquet", tmp_path / "out")
    before = files_in(tmp_path / "out")
    assert reader.convert(tiny, "parquet", tmp_path / "out") == first
    assert files_in(tmp_path / "out") == before
    with pytest.raises(InputError, match="is a conversion with where None, not 'label == 1'"):
        reader.convert(tiny, "parquet", tmp_path / "out", where="label == 1")


def test_what_cannot_be_done_is_said_before_anything_is_written(
    tiny: Path, any_set: Path, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"to": "zip"}, UsageError, "Unknown to 'zip'"),
        ({"out": tiny / "inside"}, UsageError, "overlap"),
        ({"out": tmp_path / "full"}, InputError, "has files that are not of a conversion"),
        ({"where": "width == 99999"}, UsageError, "selects no record"),
        ({"where": "colour == 1"}, UsageError, "which is no column"),
        ({"workers": 0}, UsageError, "workers"),
        ({"directory": any_set, "to": "files"}, InputError, "'raw' is bytes"),
    ]
    for options, error, message in cases:
        given: dict[str, Any] = {"directory": tiny, "to": "parquet", "out": tmp_path / "out"}
        with pytest.raises(error, match=message):
            reader.convert(**(given | options))
    assert not (tmp_path / "out").exists()
    assert files_in(tmp_path / "full").keys() == {"thesis.txt"}


def test_a_damaged_record_is_named(tiny: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(tiny, tmp_path / "set")
    shard = copied / load_manifest(copied).splits["train"].shards[0].file
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DamageError, match=f"{shard.name} at byte .* 'shardmill verify "):
        reader.convert(copied, "parquet", tmp_path / "out")
    # What was whole is kept, and the rest follows once the set is.
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    reader.convert(copied, "parquet", tmp_path / "out")
    reader.convert(copied, "parquet", tmp_path / "other")
    assert files_in(tmp_path / "out") == files_in(tmp_path / "other")


def test_a_worker_that_dies_is_an_error_that_says_so(tmp_path: Path) -> None:
    ours, theirs = Pipe()
    command = ["sh", "-c", "echo 'out of paper'; kill -9 $$"]
    process = ChildProcess(command, tmp_path / "log", {}, grace=1.0)
    theirs.close()
    with pytest.raises(InputError, match=r"\(SIGKILL; .*out of paper.*it resumes"):
        while True:
            process._process.wait()
            job._received(ours, process)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("every", [25, *proofs(1)])
@pytest.mark.parametrize("to", ["parquet", *proofs("webdataset", "files", "array_record")])
def test_killed_at_any_operation_it_goes_on(
    to: str, every: int, tiny: Path, tmp_path: Path, commands: Commands
) -> None:
    def convert(out: str, kill_at: int = -1) -> Any:
        arguments = ("convert", str(tiny), "--to", to, "--out", str(tmp_path / out))
        return commands.run(*arguments, "--shard-size", "100KB", kill_at=kill_at)

    whole = convert("whole")
    assert whole.code == 0, whole.output
    expected = files_in(tmp_path / "whole")
    for operation in range(0, whole.operations, every):
        out = f"killed-{operation}"
        assert convert(out, operation).code == KILLED
        again = convert(out)
        assert again.code == 0, again.output
        assert files_in(tmp_path / out) == expected


@pytest.mark.parametrize("to", ["parquet", "array_record"])
def test_the_way_there_and_back_has_the_same_root_hash(to: str, tiny: Path, tmp_path: Path) -> None:
    schema = Schema("image", tuple(Feature(one, "bytes") for one in ("id", "image", "label")))
    names = load_manifest(tiny).schema["label"].class_names
    records = [one for split in ("train", "test") for one in records_of(tiny, split)]
    examples = [
        encode_example(
            schema, one | {"id": one["id"].encode(), "label": names[one["label"]].encode()}
        )
        for one in records
    ]
    (tmp_path / "records.tfrecord").write_bytes(b"".join(map(frame, examples)))

    def build(source: Path, out: str) -> str:
        options: dict[str, Any] = {"id_column": "id", "label_column": "label", "no_report": True}
        options |= {"quality": "keep", "resize": "none", "split": "train=0.7,test=0.3"}
        done = preprocess(ImageOptions((str(source),), str(tmp_path / out), **options)).manifest
        assert done.ledger.kept == done.ledger.read == len(records)
        return done.root_hash

    first = build(tmp_path / "records.tfrecord", "set")
    reader.convert(tmp_path / "set", to, tmp_path / "converted", shard_bytes=100_000)
    assert build(tmp_path / "converted", "back") == first


def test_every_format_names_packages_that_its_extra_installs(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    for name, form in CONVERSION_FORMATS.items():
        required = [*project["dependencies"], *project["optional-dependencies"].get(name, ())]
        names = {re.split("[<>= ;]", one)[0] for one in required}
        assert set(form.packages) <= names, name
