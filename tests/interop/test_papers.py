"""The papers of a set, read by others: croissant.json by mlcroissant, README.md by datasets."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

import reader
from beam_jobs import ImageOptions, TextOptions, preprocess
from shard_format import load_manifest

pytestmark = pytest.mark.interop
# Whatever ends a string in YAML, JSON, Markdown or RDF; line breaks of all kinds; two scripts.
NASTY = "\"a\": 'b' \\ # - --- {c} <d> `e` | 100% @en ^^x _:f\n\n... \u2028\u0085 \U0001f600 \u05d0"
FIELDS = {
    "title": NASTY,
    "description": NASTY,
    "creators": [{"name": NASTY, "url": "https://example.org/a"}, "Ada"],
    "url": "https://example.org/set",
    "date_published": "2026-05-31",
    "keywords": [NASTY, "noise"],
    "languages": ["en", "he"],
    "data_collection": NASTY,
    "data_biases": [NASTY, "others"],
    "data_collection_time_frame": ["2025-01-01", "2025-02-01"],
    "personal_sensitive_information": [NASTY],
}
# What it misses in a set without papers; see docs/exchange.md.
MISSING = {"citeAs", "datePublished", "license"}


@pytest.fixture(scope="module", params=["images", "text"])
def shard_set(request: pytest.FixtureRequest, repository: Path, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "card.yaml").write_text(yaml.safe_dump(FIELDS, allow_unicode=True), "utf-8")
    papers = {"license": "CC-BY-4.0", "citation": NASTY, "card": str(folder / "card.yaml")}
    out = str(folder / "set")
    if request.param == "images":
        preprocess(ImageOptions((str(repository / "samples" / "clothing"),), out, **papers))
    else:
        source = str(repository / "samples" / "banking")
        preprocess(TextOptions((source,), out, label_column="category", split="folders", **papers))
    return folder / "set"


def test_mlcroissant_has_no_complaint(shard_set: Path) -> None:
    import mlcroissant

    data = mlcroissant.Dataset(str(shard_set / "croissant.json"))
    metadata = data.metadata
    assert not metadata.ctx.issues.errors and not metadata.ctx.issues.warnings
    assert metadata.description == metadata.cite_as == metadata.data_collection == NASTY
    assert set(metadata.keywords) == {NASTY, "noise"}
    assert set(metadata.data_biases) == {NASTY, "others"}
    assert {one.name for one in metadata.creators} == {NASTY, "Ada"}
    assert metadata.license == ["https://spdx.org/licenses/CC-BY-4.0"]
    assert any(" kept" in one for one in metadata.data_preprocessing_protocol)
    for split in load_manifest(shard_set).splits:
        table = pq.read_table(shard_set / "index" / f"{split}.parquet").to_pylist()
        for row, record in zip(table, data.records(split), strict=True):
            record_id, label = (
                record[f"{split}/{name}"].decode() for name in ("record_id", "label")
            )
            assert (record_id, label) == (row["record_id"], row["label"])


def test_mlcroissant_misses_what_was_not_given(
    repository: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import mlcroissant

    source = str(repository / "samples" / "clothing")
    preprocess(ImageOptions((source,), str(tmp_path / "set"), no_report=True))
    with caplog.at_level(logging.WARNING):
        data = mlcroissant.Dataset(str(tmp_path / "set" / "croissant.json"))
    issues = data.metadata.ctx.issues
    assert not issues.errors and len(issues.warnings) == len(MISSING)
    assert all(any(name in warning for warning in issues.warnings) for name in MISSING)
    assert "@context" not in caplog.text


def test_datasets_finds_the_splits(shard_set: Path, tmp_path: Path, repository: Path) -> None:
    python = repository / ".peers" / "readers" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs the peers: 'make peers'")
    reader.convert(shard_set, "parquet", tmp_path / "hub", shard_bytes=100_000)
    program = """
import json, sys
from datasets import load_dataset
from huggingface_hub import DatasetCard
card = DatasetCard.load(sys.argv[1] + "/README.md").data
assert (card.license, card.language) == ("cc-by-4.0", ["en", "he"]), card
print(json.dumps(card.pretty_name))
loaded = load_dataset(sys.argv[1], cache_dir=sys.argv[2])
print(json.dumps({split: [row["id"] for row in rows.select_columns("id")]
                  for split, rows in loaded.items()}))
"""
    done = subprocess.run(
        [python, "-c", program, tmp_path / "hub", tmp_path / "cache"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")},
    )
    title, splits = map(json.loads, done.stdout.splitlines())
    assert title == NASTY
    expected = {
        split: [record["id"] for record in reader.random_access(shard_set, split, decode=False)]
        for split in load_manifest(shard_set).splits
    }
    assert splits == expected
