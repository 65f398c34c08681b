"""Sets of boxes, masks, captions and records of a program: `train` names a program, which runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beam_jobs import ImageOptions, RecordOptions, preprocess
from shard_format import UsageError
from trainer import TrainOptions, train
from trainer.events import Notice

SOURCES: dict[str, dict[str, Any]] = {
    "boxes": {"annotations": "samples/objects/instances.json"},
    "masks": {"annotations": "samples/objects/masks", "no_labels": True},
    "captions": {
        "labels": "samples/objects/captions.jsonl",
        "caption_column": "caption",
        "no_labels": True,
    },
}


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sets")
    for name, own in SOURCES.items():
        files = {key: str(repository / path) for key, path in own.items() if "/" in str(path)}
        options: dict[str, Any] = {"no_report": True, "workers": 1, **own, **files}
        photos = str(repository / "samples" / "objects" / "photos")
        preprocess(ImageOptions((photos,), str(folder / name), **options))
    return {name: folder / name for name in SOURCES}


@pytest.mark.parametrize("name", ["masks", "captions"])
def test_a_set_without_labels_names_its_program(
    name: str, sets: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"have no labels.* samples/training/{name}.py"):
        train(TrainOptions(str(sets[name]), run_dir=tmp_path / "run"))


def test_labels_of_objects_are_learned_and_the_program_is_named(
    sets: dict[str, Path], tmp_path: Path
) -> None:
    events: list[Any] = []
    options = TrainOptions(
        str(sets["boxes"]), run_dir=tmp_path / "run", epochs=1, image_size=32, batch_size=16
    )
    train(options, events.append)
    notices = [event.text for event in events if isinstance(event, Notice)]
    expected = "labels are learned; to learn the boxes of a set, begin with"
    assert notices == [f"{expected} samples/training/boxes.py"]


def test_records_of_a_program_have_no_model(tmp_path: Path) -> None:
    preprocess(
        RecordOptions(
            "samples.records.sensors:days", str(tmp_path / "set"), no_report=True, workers=1
        )
    )
    with pytest.raises(UsageError, match="records of a program, which no model"):
        train(TrainOptions(str(tmp_path / "set"), run_dir=tmp_path / "run"))


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "said"),
    [("boxes", "boxes found"), ("masks", "mean IoU"), ("captions", "of the captions found")],
)
def test_the_programs_run(name: str, said: str, sets: dict[str, Path], repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"samples.training.{name}", sets[name], "--epochs=1", "--steps=2"],
        cwd=repository,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("test: ") and said in done.stdout
