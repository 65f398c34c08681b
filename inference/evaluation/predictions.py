"""What runs say of the records of a set: of those that they were not trained on, and of theirs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foundation.storage import Place
from inference.evaluation.evaluating import OnProgress, network_inputs, predicted_label
from inference.evaluation.models import EvaluatedModel, of_run
from inference.export.trained_run import open_run
from reader.damage import naming_damage
from shard_format import Feature, Manifest, UsageError, has_records_of, load_manifest
from trainer.checkpointing.checkpoints import epochs_kept, restore_model
from trainer.checkpointing.run_dir import CHECKPOINTS, RUN

_TRAIN = "train"
_LEAST_EPOCHS = 3  # of fewer, hardly anything can be forgotten


class RunPredictions(NamedTuple):
    """Predictions of runs for the splits that they were not trained on, and what they forgot.

    Attributes:
        label: Name of the predicted feature.
        splits: By the name of a split, [records, classes] float32 in the order of the index and of
            the classes of the set, in a mapped file; NaN in the row of a damaged record.
        forgotten: By the name of a split that a run was trained on, [records] how often the run
            unlearned a record, see `_forgotten`; without a run that kept several epochs, nothing.
    """

    label: str
    splits: dict[str, npt.NDArray[np.float32]]
    forgotten: dict[str, npt.NDArray[np.int64]]


def predict_records(
    runs: Sequence[Path],
    place: Place,
    folder: Path,
    epoch: str = "last",
    on_progress: OnProgress = lambda done, total: None,
) -> RunPredictions:
    """Predicts the records of each split by the first run that was not trained on it.

    A run that kept the checkpoints of several epochs also says which records it forgot.

    A split that a run was validated on counts as one that it was not trained on.

    Args:
        runs: Directories of runs, each trained on this set.
        place: The set.
        folder: Folder for the probabilities.
        epoch: Epoch of each run: a key of `inference.export.locating.EPOCHS`.
        on_progress: Function called after every batch.

    Raises:
        UsageError: A run was trained on another set, or predicts something other than one label, or
            each split was trained on.
        ShardSetError: There is no set.
        InputError: A model cannot be loaded.
    """
    manifest = load_manifest(place)
    result, done = RunPredictions("", {}, {}), 0
    for run in runs:
        if not (run / RUN).is_file():
            raise UsageError(
                f"No run of 'shardmill train' in {run}, so nothing says what was trained on. Pass "
                "its --run-dir."
            )
        trained = open_run(run, epoch)
        model = of_run(trained, trained.model)
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
        epochs = epochs_kept(run / CHECKPOINTS)
        if (
            trained_on in manifest.splits
            and trained_on not in result.forgotten
            and len(epochs) >= _LEAST_EPOCHS
        ):
            rights = _rights(model, place, manifest, trained_on, label)
            weights = functools.partial(restore_model, run / CHECKPOINTS, trained.model)
            records = manifest.splits[trained_on].records
            result.forgotten[trained_on] = _forgotten(rights, weights, epochs, records, on_progress)
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


def _forgotten(
    rights: Callable[[], Iterator[npt.NDArray[np.int64]]],
    take: Callable[[int], None],
    epochs: Sequence[int],
    count: int,
    on_progress: OnProgress,
) -> npt.NDArray[np.int64]:
    """[records] how often a record was right after one epoch and wrong after the next one.

    Forgetting events (Toneva et al., An empirical study of example forgetting during deep neural
    network learning, ICLR 2019, section 3), looked for after every epoch rather than whenever a
    record is trained on. A record that was never right has as many as there are epochs, and one
    that could not be read -1.

    Args:
        rights: Gives 1 for each record that is predicted right, 0 for another one, -1 for a
            damaged one, batch by batch.
        take: Called with the number of a checkpoint; gives the model its weights.
        epochs: Numbers of the checkpoints.
        count: Number of records.
        on_progress: Function called after every batch.
    """
    events, ever, before = np.zeros((3, count), np.int64)
    right = before
    for number, checkpoint in enumerate(epochs):
        take(checkpoint)
        begin, right = 0, np.full(count, -1)
        for batch in rights():
            batch = batch[: count - begin]  # the last batch is filled up
            right[begin : begin + len(batch)] = batch
            begin += len(batch)
            on_progress(number * count + begin, len(epochs) * count)
        events += (before == 1) & (right == 0)
        ever |= right == 1
        before = right
    return np.where(right < 0, -1, np.where(ever, events, len(epochs)))


def _rights(
    model: EvaluatedModel, place: Place, manifest: Manifest, split: str, label: Feature
) -> Callable[[], Iterator[npt.NDArray[np.int64]]]:
    """The first argument of `_forgotten`."""

    def rights() -> Iterator[npt.NDArray[np.int64]]:
        size = model.batch_size
        with naming_damage():
            for inputs, targets, weights in network_inputs(
                model.about, place, manifest, split, label, size, every_row=True
            ):
                _, predicted = model.outcome(inputs, targets, None)
                yield np.where(weights == 0, -1, predicted == targets)

    return rights


def _require_own_set(model: EvaluatedModel, run: Path, place: Place, manifest: Manifest) -> None:
    now, then = manifest.root_hash, model.about.root_hash
    if now != then and not has_records_of(place, now, then):
        earlier = {one.view for one in manifest.generations}
        if then not in earlier:
            raise UsageError(
                f"{run} was trained on another set (root hash {then}) than {place} ({now}), whose "
                "records it may have learnt. Pass a run on this set."
            )
