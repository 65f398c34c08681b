"""Probabilities of the classes of a set, for records that a model was not trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foundation.storage import Place
from reader.damage import naming_damage
from shard_format import Feature, Manifest, UsageError, has_records_of, load_manifest
from trainer.checkpointing.run_dir import RUN
from trainer.evaluation.evaluating import OnProgress, network_inputs, predicted_label
from trainer.evaluation.models import EvaluatedModel, open_model

_TRAIN = "train"


class OutOfSample(NamedTuple):
    """Predictions of runs for the splits that they were not trained on.

    Attributes:
        label: Name of the predicted feature.
        splits: By the name of a split, [records, classes] float32 in the order of the index and of
            the classes of the set, in a mapped file; NaN in the row of a damaged record.
    """

    label: str
    splits: dict[str, npt.NDArray[np.float32]]


def predict_out_of_sample(
    runs: Sequence[Path],
    place: Place,
    folder: Path,
    epoch: str = "last",
    on_progress: OnProgress = lambda done, total: None,
) -> OutOfSample:
    """Predicts the records of each split by the first run that was not trained on it.

    A split that a run was validated on counts as one that it was not trained on.

    Args:
        runs: Directories of runs, each trained on this set.
        place: The set.
        folder: Folder for the probabilities.
        epoch: Epoch of each run: a key of `trainer.export.locating.EPOCHS`.
        on_progress: Function called after every batch.

    Raises:
        UsageError: A run was trained on another set, or predicts something other than one label, or
            each split was trained on.
        ShardSetError: There is no set.
        InputError: A model cannot be loaded.
    """
    manifest = load_manifest(place)
    result, done = OutOfSample("", {}), 0
    for run in runs:
        if not (run / RUN).is_file():
            raise UsageError(
                f"No run of 'shardmill train' in {run}, so nothing says what was trained on. Pass "
                "its --run-dir."
            )
        model = open_model(run, epoch)
        _require_own_set(model, run, place, manifest)
        label = predicted_label(model, manifest, place)
        if label is None or model.about.multi_label or not label.class_names:
            raise UsageError(f"{run} does not predict one label of a record. Pass another --run.")
        if result.label not in ("", label.name):
            raise UsageError(f"{run} predicts {label.name!r}, not {result.label!r}. Leave it out.")
        result = result._replace(label=label.name)
        trained_on = model.about.options.get("train_split", _TRAIN)
        own = {
            split: info.records
            for split, info in manifest.splits.items()
            if split != trained_on and split not in result.splits and info.records
        }
        total = done + sum(own.values())
        for split, count in own.items():
            file, shape = folder / f"{len(result.splits)}.npy", (count, len(label.class_names))
            rows = np.lib.format.open_memmap(file, "w+", np.float32, shape)
            for begin, values in _probabilities(model, place, manifest, split, label):
                end = min(begin + len(values), count)  # the last batch is filled up
                rows[begin:end] = values[: end - begin]
                on_progress(done + end, total)
            done += count
            result.splits[split] = rows
    if not result.splits:
        raise UsageError(
            f"Each record of {place} was trained on, so no prediction is out of sample. Build it "
            "with --split train=0.8,test=0.2, or pass a --run for each half of it."
        )
    return result


def _probabilities(
    model: EvaluatedModel, place: Place, manifest: Manifest, split: str, label: Feature
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """(first row, [batch, classes of the set] probabilities) of each batch of a split."""
    about, begin = model.about, 0
    places = [about.class_names.index(name) for name in label.class_names]
    batches = network_inputs(about, place, manifest, split, label, model.batch_size, every_row=True)
    with naming_damage():
        for inputs, _, weights in batches:
            values = np.asarray(model.probabilities(inputs), np.float32)[:, places]
            values[weights == 0] = np.nan  # it could not be read
            yield begin, values
            begin += len(values)


def _require_own_set(model: EvaluatedModel, run: Path, place: Place, manifest: Manifest) -> None:
    now, then = manifest.root_hash, model.about.root_hash
    if now != then and not has_records_of(place, now, then):
        earlier = {one.view for one in manifest.generations}
        if then not in earlier:
            raise UsageError(
                f"{run} was trained on another set (root hash {then}) than {place} ({now}), whose "
                "records it may have learnt. Pass a run on this set."
            )
