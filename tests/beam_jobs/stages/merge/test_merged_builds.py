"""A build that merges has the same bytes as one that does not."""

from __future__ import annotations

import json

import pytest

from beam_jobs import bounds
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from shard_format import naming, verify
from tests.beam_jobs.test_same_bytes import OPTIONS, TEXT_VARIANTS, VARIANTS, write_questions


@pytest.fixture(scope="module")
def golden(repository):
    return json.loads((repository / "tests" / "golden" / "v2" / "root_hash.json").read_text())


@pytest.fixture(scope="module")
def questions(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions") / "corpus"
    return write_questions(repository / "samples" / "banking", folder)


def stages_of(out):
    build = json.loads((out / naming.BUILD).read_text())
    return [stage["name"] for stage in build["stages"]], build["units"]


def cases(*pairs):
    """The first always, the others as proofs."""
    return [
        pytest.param(*pair, marks=() if number == 0 else pytest.mark.proof)
        for number, pair in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("name", "levels"),
    cases(("near", 1), ("oversampled", 2), ("undersampled", 1), ("stratified", 2)),
)
def test_images(name, levels, force, samples, golden, tmp_path):
    force(levels)
    options = OPTIONS | VARIANTS[name] | {"unit_size": "64KiB", "no_report": True}
    report = preprocess(ImageOptions((str(samples),), str(tmp_path / "set"), **options))
    assert report.manifest.root_hash == golden[name]
    stages, units = stages_of(tmp_path / "set")
    assert "merge" in stages and units > 20
    assert verify(tmp_path / "set")[1] == []
    assert not (tmp_path / "set" / naming.WORK_DIR).exists()


@pytest.mark.parametrize(
    ("name", "levels"),
    cases(("text-packed", 2), ("text-parts", 1), ("text-oversampled", 2), ("text-near", 1)),
)
def test_documents(name, levels, force, questions, golden, tmp_path, monkeypatch):
    force(levels)
    monkeypatch.setattr(bounds, "PLANNED_ROWS", 7)  # a unit is several parts of a recipe
    options = {"label_column": "category", "num_shards": 3, "split": "train=0.9,test=0.1"}
    options |= TEXT_VARIANTS[name] | {"unit_size": "16KiB", "no_report": True}
    report = preprocess(TextOptions((str(questions),), str(tmp_path / "set"), **options))
    assert report.manifest.root_hash == golden[name]
    assert "merge" in stages_of(tmp_path / "set")[0]
