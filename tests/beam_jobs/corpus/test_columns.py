"""Parquet and Arrow: whatever a column may hold, and files that are cut or damaged."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from beam_jobs.options import TextOptions
from beam_jobs.stages.list import resolve_options
from shard_format import InputError

from .conftest import files_of, kept, reasons

JPEG = b"\xff\xd8\xff" + bytes(range(200))


def parquet_file(path, table, **options):
    pq.write_table(table, path, **options)
    return path


def arrow_file(path, table, row_group_size=None, **options):
    with pa.ipc.new_file(str(path), table.schema, **options) as writer:
        writer.write_table(table, row_group_size)
    return path


def arrow_stream(path, table, row_group_size=None, **options):
    with pa.ipc.new_stream(str(path), table.schema, **options) as writer:
        writer.write_table(table, row_group_size)
    return path


def feather_file(path, table, row_group_size=None):
    pa.feather.write_feather(table, str(path), compression="lz4", chunksize=row_group_size)
    return path


@pytest.fixture(params=[parquet_file, arrow_file, arrow_stream, feather_file])
def store(request, tmp_path):
    def make(columns, name="a", **options):
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        return request.param(tmp_path / f"{name}.file", table, **options)

    return make


def test_labels_of_every_type(store, records):
    images = pa.array([JPEG + bytes([n]) for n in range(3)], pa.large_binary())
    for values, labels in [
        (pa.array([3, 1, None], pa.int8()), ["3", "1", None]),
        (pa.array(["a", "007", " "]), ["a", "007", None]),
        (pa.array([1.0, 2.5, float("nan")]), ["1", "2.5", None]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([b"x", b"y", None], pa.binary()), ["x", "y", None]),
    ]:
        results = records(store({"image": images, "label": values}))
        assert [raw.label for raw in results.values()] == labels
        assert [raw.data for raw in results.values()] == images.to_pylist()
        assert list(results) == [f"a.file/{n:09d}" for n in range(3)]


def test_several_labels(store, records):
    images = [JPEG + bytes([n]) for n in range(5)]
    labels = [["b", "a", "b"], [], None, ["c"], ["bad\x1fname"]]
    path = store({"image": images, "label": labels})
    results = records(path, multi_label=True)
    assert [raw.label for raw in list(results.values())[:4]] == ["a\x1fb", "", None, "c"]
    assert reasons(results) == {"a.file/000000004": "bad-label"}
    results = records(path)
    assert results["a.file/000000000"][0] == "several-labels"
    assert results["a.file/000000003"].label == "c"
    path = store({"image": images[:2], "label": ["b| a", "a"]})
    assert [raw.label for raw in records(path, multi_label=True).values()] == ["a\x1fb", "a"]


def test_groups_splits_and_class_names(store, records):
    features = {"features": {"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}}
    table = pa.table(
        {
            "image": [JPEG] * 5,
            "label": [1, 0, -1, 7, 0],
            "writer": [10, None, 11, 12, 13],
            "fold": ["train", "VAL", "test", "train", "holdout"],
        }
    ).replace_schema_metadata({"huggingface": json.dumps({"info": features})})
    results = list(records(store(table), group_by="writer", split="column:fold").values())
    assert [(raw.label, raw.group, raw.split) for raw in results[:3]] == [
        ("dog", "10", "train"),
        ("cat", None, "validation"),
        (None, "11", "test"),
    ]
    assert [raw[0] for raw in results[3:]] == ["bad-label", "no-split"]
    assert results[4][2] == JPEG


def test_cells_without_image(store, records):
    cells = [
        {"bytes": JPEG, "path": "a.jpg"},
        {"bytes": None, "path": "/data/b.jpg"},
        {"bytes": None, "path": None},
        None,
        {"bytes": b"", "path": None},
    ]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    path = store({"image": pa.array(cells, kind), "label": ["x"] * 5}, row_group_size=2)
    results = records(path)
    assert list(reasons(results).values()) == ["external-path", "no-image", "no-image"]
    assert [data for data, _ in kept(results).values()] == [JPEG, b""]
    assert "/data/b.jpg" in results["a.file/000000001"][1]


def test_columns_that_are_missing_are_named(store, records):
    path = store({"img": [JPEG], "label": ["x"], "n": [1]})
    with pytest.raises(
        InputError,
        match=r"a\.file has no column 'image' \(--image-column\).*Use --image-column img",
    ):
        records(path)
    with pytest.raises(InputError, match=r"--image-column 'n' of a\.file has the type int64"):
        records(path, image_column="n")
    with pytest.raises(InputError, match=r"no column 'y' \(--label-column\)"):
        records(path, image_column="img", label_column="y")
    with pytest.raises(InputError, match=r"no column 'z' \(--group-by\)"):
        records(path, image_column="img", group_by="z")
    assert len(kept(records(path, image_column="img"))) == 1
    assert len(kept(records(path, image_column="img", no_labels=True, label_column="y"))) == 1


def test_empty_files_and_many_groups(store, records):
    empty = pa.table({"image": pa.array([], pa.binary()), "label": pa.array([], pa.string())})
    assert reasons(records(store(empty))) == {"a.file": "no-images"}
    rows = 2500
    images = [JPEG + str(n).encode() for n in range(rows)]
    results = records(
        store({"image": images, "label": [n % 7 for n in range(rows)]}, "b", row_group_size=100)
    )
    assert [data for data, _ in kept(results).values()] == images


@pytest.mark.parametrize("write", [parquet_file, arrow_file, arrow_stream])
def test_damage_is_never_fatal(write, tmp_path, records):
    noise = random.Random(3)
    images = [noise.randbytes(400) for _ in range(60)]
    table = pa.table({"image": images, "label": [str(n % 3) for n in range(60)]})
    folder = tmp_path / "files"
    folder.mkdir()
    whole = write(folder / "a", table, row_group_size=10).read_bytes()
    write(folder / "good", table.slice(0, 5))
    source = "parquet" if write is parquet_file else "arrow"
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(noise.choice([1, 5])):
            data[noise.randrange(len(data))] ^= 1 << noise.randrange(8)
        if noise.random() < 0.4:
            del data[noise.randrange(len(data)) :]
        (folder / "a").write_bytes(data)
        try:
            results = records(folder, source=source)
        except InputError as error:
            assert "has no column" in str(error) or "has the type" in str(error)
            continue
        assert len([name for name in kept(results) if name.startswith("good/")]) == 5
        if "a" in results:
            assert results["a"][0] in ("damaged-file", f"not-a{'n' * (source == 'arrow')}-{source}")
            assert results["a"][2] == data


def test_a_cut_arrow_file_gives_its_whole_batches(tmp_path, records):
    images = [JPEG * 5 + bytes([n]) for n in range(60)]
    table = pa.table({"image": images, "label": ["x"] * 60})
    for write in (arrow_file, arrow_stream):
        path = write(tmp_path / "a.arrow", table, row_group_size=10)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        results = records(path)
        assert len(kept(results)) in (20, 30)
        assert list(reasons(results).values()) == ["damaged-file"]


def test_other_files_next_to(tmp_path, records):
    table = pa.table({"image": [JPEG], "label": ["x"]})
    folder = tmp_path / "data"
    folder.mkdir()
    parquet_file(folder / "test-00000-of-00001.parquet", table)
    (folder / "dataset_infos.json").write_text("{}")
    (folder / "README.md").write_text("hello")
    results = records(folder, split="folders")
    assert reasons(results) == {"README.md": "not-a-parquet"} or reasons(results) == {
        "README.md": "no-split-folder"
    }
    assert [raw.split for raw in results.values() if type(raw) is not tuple] == ["test"]
    assert records.ignored == ["dataset_infos.json"]


def test_real_files_of_other_writers(corpora, records):
    for path in sorted((corpora / "interop" / "parquet").glob("*data/*.parquet")):
        columns = pq.read_schema(path).names if path.parent.name == "data" else ["image"]
        try:
            results = records(path, source="parquet", image_column=columns[0], no_labels=True)
        except InputError as error:
            assert "--image-column" in str(error)
            continue
        assert results, path
    results = records(
        corpora / "interop/parquet/data/binary.parquet", image_column="foo", no_labels=True
    )
    assert [data for data, _ in kept(results).values()] == [bytes([n]) for n in range(12)]


def test_units_are_whole_row_groups(make_images, build, tmp_path):
    files = files_of(make_images(6))
    table = pa.table({"image": list(files.values()), "label": ["x"] * 6})
    manifest = build(
        parquet_file(tmp_path / "a.parquet", table, row_group_size=2), unit_size="1KiB"
    ).manifest
    assert manifest.ledger.kept == 6


def test_a_label_that_the_first_file_lacks_is_not_dropped_in_silence(tmp_path):
    for number, columns in enumerate(({}, {"label": ["a", "b"]})):
        table = pa.table({"text": ["some words", "other words"], **columns})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    job = resolve_options(TextOptions(tmp_path, "out"))
    assert job.no_labels and "1.parquet has one. --label-column label reads it" in job.notes[0]
    given = resolve_options(TextOptions(tmp_path, "out", label_column="label"))
    assert not given.no_labels and not given.notes
    (tmp_path / "0.parquet").unlink()
    assert resolve_options(TextOptions(tmp_path, "out")).label_column == "label"
