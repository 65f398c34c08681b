"""croissant.json describes a set, and follows from it."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shard_format import index_parts, load_manifest, naming, open_index, verify

# A process of a virtual environment with mlcroissant: it validates, and reads all records. It ends
# without a clean-up: in about one of 30 runs a thread of a library aborts the process there.
_READ = """
import json, os, sys
import mlcroissant
data = mlcroissant.Dataset(sys.argv[1])
assert not data.metadata.ctx.issues.errors, data.metadata.ctx.issues.report()
def plain(value):
    value = list(map(plain, value)) if isinstance(value, list) else value
    return value.decode() if isinstance(value, bytes) else value
splits = [one.id for one in data.metadata.record_sets]
print(json.dumps({s: [{k: plain(v) for k, v in one.items()} for one in data.records(s)]
                  for s in splits}), flush=True)
os._exit(0)
"""


@pytest.fixture
def shard_set(kind, build, tmp_path) -> Path:
    build(kind.make(24), num_shards=2)
    return tmp_path / "set"


def test_it_describes_every_file_and_record(shard_set: Path) -> None:
    manifest = load_manifest(shard_set)
    text = (shard_set / "croissant.json").read_text()
    assert str(shard_set) not in text and "date" not in text
    croissant = json.loads(text)
    for file in croissant["distribution"]:
        assert (shard_set / file["contentUrl"]).stat().st_size == int(file["contentSize"][:-2])
    class_names = manifest.schema["label"].class_names
    names, *of_splits = croissant["recordSet"]
    assert [one["split-names/name"] for one in names["data"]] == list(manifest.splits)
    assert [records["@id"] for records in of_splits] == list(manifest.splits)
    for records in of_splits:
        split = records["@id"]
        table = pq.read_table(shard_set / "index" / f"{split}.parquet")
        assert [field["name"] for field in records["field"]] == table.column_names
        index = open_index(shard_set / "index" / f"{split}.arrow").to_pylist()
        for row, own in zip(index, table.to_pylist(), strict=True):
            assert own["shard"] == manifest.splits[split].shards[row["shard"]].file
            assert own["label"] == class_names[row["label"]]
            assert all(own[name] == row[name] for name in ("offset", "length", "record_id"))


def test_it_is_not_part_of_the_root_hash(shard_set: Path) -> None:
    manifest = load_manifest(shard_set)
    assert not [file for file in manifest.files if "croissant" in file or "parquet" in file]
    # Sets of earlier versions have neither.
    (shard_set / "croissant.json").unlink()
    for table in (shard_set / "index").glob("*.parquet"):
        table.unlink()
    assert verify(shard_set)[1] == []


@pytest.mark.parametrize("file", ["croissant.json", "index/train.parquet"])
def test_a_lost_file_is_found(shard_set: Path, file: str) -> None:
    (shard_set / file).unlink()
    (damage,) = verify(shard_set)[1]
    assert (damage.file, damage.problem) == (file, "is missing")


@pytest.mark.proof
@pytest.mark.parametrize("part_rows", [index_parts.PART_ROWS, 5])
def test_mlcroissant_validates_and_reads_it(
    kind, build, tmp_path, part_rows, monkeypatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(index_parts, "PART_ROWS", part_rows)
    build(kind.make(24), num_shards=6)
    shard_set = tmp_path / "set"
    python = _with_mlcroissant(tmp_path_factory.getbasetemp() / "mlcroissant")
    command = [python, "-c", _READ, shard_set / "croissant.json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    read = json.loads(done.stdout.splitlines()[-1])
    splits = load_manifest(shard_set).splits
    assert [one["split-names/name"] for one in read.pop("split-names")] == list(splits)
    assert list(read) == list(splits)
    for split, records in read.items():
        tables = naming.table_files(split, len(splits[split].index))
        rows = [row for file in tables for row in pq.read_table(shard_set / file).to_pylist()]
        assert records == [{f"{split}/{key}": row[key] for key in row} for row in rows]
        assert len(rows) == splits[split].records > 0


def _with_mlcroissant(folder: Path) -> Path:
    """The Python of a virtual environment: mlcroissant brings pandas and SciPy."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        arrow = f"pyarrow=={importlib.metadata.version('pyarrow')}"
        pip = [python, "-m", "pip", "install", "--quiet", "mlcroissant==1.1.1", "pillow", arrow]
        subprocess.run(pip, check=True)
    return python
