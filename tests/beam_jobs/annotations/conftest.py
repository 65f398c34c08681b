"""Photographs, and what annotates them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.beam_jobs.annotations.annotated import OBJECTS, SIZES, coco_of, photo


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for seed, (name, size) in enumerate(SIZES.items()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(photo(size, seed))
    return folder


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(coco_of(OBJECTS)))
    return file
