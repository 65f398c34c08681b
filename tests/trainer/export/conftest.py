from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest


@dataclasses.dataclass(frozen=True)
class Trained:
    data: Path
    run: Path
    served: Path


@pytest.fixture(scope="package")
def trained(tmp_path_factory, samples):
    """A model that has seen all 320 photographs once, on a set without loss, and its export."""
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess
    from trainer import TrainOptions, train
    from trainer.export import ExportOptions, export

    root = tmp_path_factory.mktemp("export")
    made = Trained(root / "set", root / "run", root / "served")
    preprocess(
        ImageOptions(
            (str(samples),),
            str(made.data),
            resize="shorter:40",
            encoding="png",
            split="train=0.8,test=0.2",
            workers=1,
            no_report=True,
        )
    )
    options = {"image_size": 32, "epochs": 1, "prune": 0.5, "precision": "float32"}
    options["validation_split"] = "test"
    train(TrainOptions(made.data, made.run, model="tiny:with_norm", **options))
    export(ExportOptions(made.run, made.served))
    return made
