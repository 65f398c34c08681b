"""A set at a URL whose index is in parts is read where it is, as if its index were one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader
from shard_format import index_parts, load_manifest, naming

IMAGES = {f"{'abc'[n % 3]}/{n}": n for n in range(60)}
OPTIONS: dict[str, Any] = {"batch_size": 6, "image_size": 8, "seed": 1, "streams": 2, "epochs": 1}


@pytest.fixture
def large(write_corpus: Any, begin_set: Any, monkeypatch: Any, tmp_path: Path) -> Path:
    monkeypatch.setattr(index_parts, "PART_ROWS", 20)
    source = write_corpus("images", IMAGES)
    begin_set(source, "large", split="train=1", resize="none", num_shards=12)
    assert len(load_manifest(tmp_path / "large").splits["train"].index) == 3
    return tmp_path / "large"


@pytest.mark.parametrize(
    "options",
    [
        {"cache": "off"},
        {"cache": "off", "augment": "standard"},
        {"cache": "memory"},
        {"cache": "disk"},
        {"cache": "disk", "cache_limit": 30_000},
        {"cache": "off", "sample": "balanced"},
    ],
)
def test_batches_are_those_of_the_local_set(
    large: Path, remote: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    url, _ = remote(large)
    options = OPTIONS | {"cache_dir": tmp_path / "cache"} | options
    own = [labels.numpy() for _, labels in reader.load(large, **options).dataset]
    far = [labels.numpy() for _, labels in reader.load(url, **options).dataset]
    assert np.array_equal(own, far)
    assert not list((tmp_path / "cache").glob("*/index/train-*.arrow"))


def test_opening_asks_for_no_part(large: Path, remote: Any, tmp_path: Path) -> None:
    url, files = remote(large)
    stream = reader.load(url, cache="off", cache_dir=tmp_path / "cache", **OPTIONS)
    first = naming.index_part_file("train", 0).rpartition("/")[2]
    asked = {Path(name).name for name in files.opened} - {first}  # it has the names of the columns
    assert asked <= {"manifest.json", "train.shards.arrow"}
    assert stream.info.records == len(IMAGES)


def test_records_by_number(large: Path, remote: Any) -> None:
    own, far = reader.random_access(large), reader.random_access(remote(large)[0])
    assert [row["id"] for row in own] == [row["id"] for row in far]
    assert far[41]["id"] == own[41]["id"]
