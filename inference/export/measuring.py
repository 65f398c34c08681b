"""How large, how right and how fast an exported model is."""

from __future__ import annotations

import dataclasses
import gzip
import time
from pathlib import Path

import numpy as np

from inference.evaluation.evaluating import batches_of, predicted_label, scores_on
from inference.evaluation.models import EvaluatedModel
from inference.export.result import Measured
from inference.export.trained_run import TrainedRun
from shard_format import Manifest

_WARM_CALLS, _TIMED_CALLS = 3, 30


def measure(name: str, path: Path) -> Measured:
    """The size of the file or folder of a model; see `Measured` for its name."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    size = sum(each.stat().st_size for each in files)
    packed = sum(len(gzip.compress(each.read_bytes(), 6)) for each in files)
    return Measured(name, str(path), size, packed)


def evaluated(
    measured: Measured, model: EvaluatedModel, run: TrainedRun, manifest: Manifest, most: int | None
) -> Measured:
    """The accuracy on the validation split, and the time of one example, too.

    Args:
        measured: The size of the model.
        model: The model.
        run: The run that it is of.
        manifest: Manifest of the set that is read, from `TrainedRun.open_set`.
        most: Number of records at most; None for all.
    """
    split = run.evaluation_split or ""
    label = predicted_label(model, manifest, run.data)
    scores = scores_on(model, run.data, manifest, split, label, most=most)
    batch, _, _ = next(batches_of(model, run.data, manifest, split, label))
    seconds = []
    for _ in range(_WARM_CALLS + _TIMED_CALLS):
        begin = time.perf_counter()
        np.asarray(model.probabilities(batch[:1]))  # on a device until they are read
        seconds.append(time.perf_counter() - begin)
    return dataclasses.replace(
        measured,
        accuracy=scores.accuracy,
        records=scores.records,
        milliseconds=1e3 * float(np.median(seconds[_WARM_CALLS:])),
    )
