from __future__ import annotations

import dataclasses
import fcntl
import os
from pathlib import Path

import pytest


@dataclasses.dataclass(frozen=True)
class Trained:
    data: Path
    run: Path
    served: Path


@pytest.fixture(scope="package")
def trained(tmp_path_factory, samples):
    """A model that has seen all 320 photographs once, on a set without loss, and its export.

    The first process of pytest-xdist that needs it makes it, for all of them.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    root = root / "export"
    made = Trained(root / "set", root / "run", root / "served")
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            _train(made, samples)
    return made


def _train(made, samples):
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess
    from inference.export import ExportOptions, export
    from trainer import TrainOptions, train

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
