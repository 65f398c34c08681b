"""An evaluation from start to end: the model, the records, the scores."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import reader
from foundation import storage
from foundation.storage import Place, local_path
from foundation.wording import counted
from inference.evaluation.models import EvaluatedModel, open_model, outcome_of
from inference.evaluation.scores import Evaluation, Scores
from inference.export.predicting import MakeClean, Predictor, open_predictor
from inference.export.trained_run import ModelDescription, own_manifest
from reader.damage import naming_damage
from reader.record_types.features import find_feature, labels_by_name
from reader.records.tokenizer import read_tokenizer
from shard_format import (
    Feature,
    InputError,
    Manifest,
    UsageError,
    load_manifest,
    naming,
)
from trainer.baseline import majority_baseline
from trainer.checkpointing.run_dir import RUN

# called with (records done, records in all)
OnProgress = Callable[[int, int], None]
Batch = tuple[Any, Any, Any]  # inputs, targets, weights or None
_TRAIN = "train"


def evaluate(
    path: Path | str,
    data: Place | str | None = None,
    split: str = "test",
    epoch: str = "last",
    on_progress: OnProgress = lambda done, total: None,
    make_clean: MakeClean | None = None,
) -> Evaluation:
    """Measures a model on records with known classes.

    Args:
        path: See `open_model`.
        data: A shard set, or a folder with a folder of files for each class; None is the set that
            the model was trained on.
        split: Name of the split of a set.
        epoch: Epoch of a run: a key of `inference.export.locating.EPOCHS`.
        on_progress: Function called after every batch.
        make_clean: Makes what cleans the texts in files, see `open_predictor`.

    Raises:
        UsageError: The set has no such split, or is not for this model.
        ShardSetError: There is no set, or the one of the run was replaced.
        InputError: The model cannot be loaded, or the folder has no files of its classes.
        DamageError: A record is damaged.
        MissingExtraError: The runtime of the model is not installed.
    """
    path = Path(path)
    data = storage.place_of(data) if data else None
    folder = data and _folder_of_classes(data)
    if folder:
        return _of_folder(open_predictor(path, epoch, None, make_clean), path, folder, on_progress)
    model = open_model(path, epoch)
    place, about = data or model.about.data, model.about
    if place is None:
        raise UsageError(f"Nothing says which set {path} was trained on. Pass --data SET.")
    if data is None:
        otherwise = f", or pass --data {place} to measure on this one"
        manifest = own_manifest(place, about.root_hash, str(model.path), "evaluate", otherwise)
    else:
        manifest = load_manifest(place)
        if about.kind != "image" and manifest.root_hash != about.root_hash:
            _require_same_tokens(model, place, manifest)
    _require_split(manifest, split, place)
    label = predicted_label(model, manifest, place)
    scores = scores_on(model, place, manifest, split, label, on_progress)
    return scores.result(
        model=str(model.path),
        runtime=model.runtime,
        data=str(place),
        split=split,
        baseline=majority_baseline(
            manifest, label, about.options.get("train_split", _TRAIN), split
        ),
    )


def scores_on(
    model: EvaluatedModel,
    place: Place,
    manifest: Manifest,
    split: str,
    label: Feature | None,
    on_progress: OnProgress = lambda done, total: None,
    most: int | None = None,
) -> Scores:
    """The sums over the records of a split.

    Args:
        model: The model.
        place: The set.
        manifest: Its manifest.
        split: Name of the split.
        label: The label that is predicted; None of a language model.
        on_progress: Function called after every batch.
        most: Number of records at most, of a classifier; None for all.

    Raises:
        DamageError: A record is damaged.
    """
    scores, total = Scores(model.about.class_names, model.about.multi_label), manifest.splits[split]
    with naming_damage():
        for inputs, targets, weights in batches_of(model, place, manifest, split, label):
            if most is not None:
                left = most - scores.records
                inputs, targets = inputs[:left], targets[:left]
            losses, predicted = model.outcome(inputs, targets, weights)
            scores.add(losses, predicted, targets, weights)
            on_progress(scores.records, total.records)
            if scores.records == most:
                break
    return scores


def _require_same_tokens(model: EvaluatedModel, place: Place, manifest: Manifest) -> None:
    """Checks that token ids mean the same as in training.

    Raises:
        UsageError: They do not.
        ShardSetError: The tokenizer of the training cannot be read.
    """
    folder = model.about.tokenizer_folder
    if folder is None:
        raise UsageError(f"Nothing says which tokenizer {model.path} was trained with.")
    then = model.about.manifest or load_manifest(folder)
    is_same = read_tokenizer(folder) == read_tokenizer(place)
    if model.about.kind == "packed":
        is_same &= then.schema["tokens"].shape == manifest.schema["tokens"].shape
    if not is_same:
        raise UsageError(
            f"{place} has another tokenizer, or sequences of another length, than the set that "
            f"{model.path} was trained on. Build it with --tokenizer of {folder}, and the same "
            "--pack."
        )


def _require_split(manifest: Manifest, split: str, place: Place) -> None:
    filled = [name for name, one in manifest.splits.items() if one.records]
    if split not in filled:
        raise UsageError(
            f"No records in a split {split!r} of {place}, only in {', '.join(filled)}. Pass one of "
            "them with --split, or build the set with --split train=0.8,validation=0.1,test=0.1."
        )


def predicted_label(model: EvaluatedModel, manifest: Manifest, place: Place) -> Feature | None:
    """The label that the model predicts; None for a language model.

    Raises:
        UsageError: The set is not for this model.
    """
    kind, about = reader.kind_of(manifest.schema), model.about
    if kind != about.kind:
        raise UsageError(f"{place} holds {kind} records, and {model.path} takes {about.kind}.")
    if kind == "packed":
        return None
    labels = labels_by_name(manifest)
    label = labels.get(about.options.get("label") or "", next(iter(labels.values()), None))
    if label is None:
        raise UsageError(f"Records of {place} have no labels to compare with. Pass --data SET.")
    if bool(label.shape) != about.multi_label:
        which = "any number of labels" if label.shape else "one label"
        raise UsageError(f"Records of {place} have {which}, unlike those of {model.path}.")
    _require_known(label.class_names, about.class_names, place)
    return label


def _require_known(names: Sequence[str], known: Sequence[str], place: object) -> None:
    unknown = [name for name in names if name not in set(known)]
    if unknown:
        few, others = ", ".join(map(repr, known[:10])), " and others" if len(known) > 10 else ""
        raise UsageError(
            f"{place} has {counted(len(unknown), 'class', 'classes')} that the model does not "
            f"know, such as {', '.join(map(repr, unknown[:3]))}. It knows {few}{others}. Leave "
            "them out."
        )


def batches_of(
    model: EvaluatedModel, place: Place, manifest: Manifest, split: str, label: Feature | None
) -> Iterator[Batch]:
    """Batches of what a model takes: see `network_inputs`, or encoded images."""
    batches = _files if model.takes_files else network_inputs
    return batches(model.about, place, manifest, split, label, model.batch_size)


def network_inputs(
    about: ModelDescription,
    place: Place,
    manifest: Manifest,
    split: str,
    label: Feature | None,
    batch_size: int,
    *,
    every_row: bool = False,
) -> Iterator[Batch]:
    """Batches of what a network takes.

    Args:
        about: What is known of the model.
        place: The set.
        manifest: Its manifest.
        split: Name of the split.
        label: The label that is predicted; None of a language model.
        batch_size: Records of a batch; documents in batches of 1 are filled up to `max_tokens`.
        every_row: Whether a damaged record is a row of weight 0, as are those behind the last
            record, and not an error. Then a row is that of the index.
    """
    stream = reader.load(
        place,
        split=split,
        batch_size=batch_size,
        image_size=about.options.get("image_size"),
        max_tokens=about.options.get("max_tokens"),
        pad="max" if about.kind == "tokens" and batch_size == 1 else "longest",
        label=None if label is None else label.name,
        generation=manifest.newest,
        # The statistics are those of the run, whatever set is read.
        augment=["none", about.normalization] if about.normalization else "none",
        shuffle="off",
        epochs=1,
        remainder="pad" if every_row else "keep",
        on_corrupt="skip" if every_row else "raise",
        cache="off",
    )
    for inputs, targets, *further in stream.dataset.as_numpy_iterator():
        fed = inputs.astype(np.float32) if about.kind == "image" else inputs
        yield fed, _as_outputs(about, label, targets), (further[0] if further else None)


def _files(
    about: ModelDescription,
    place: Place,
    manifest: Manifest,
    split: str,
    label: Feature | None,
    batch_size: int,
) -> Iterator[Batch]:
    """Batches of encoded images; raw pixels become PNG."""
    image = find_feature(manifest.schema, "image")
    if image is None or label is None:
        raise UsageError(f"Records of {place} have no images with labels. Pass --data SET.")
    is_raw = image.encoding == "raw"
    records = iter(reader.random_access(place, split, decode=is_raw, generation=manifest.newest))
    while rows := list(itertools.islice(records, batch_size)):
        images = [row[image.name] for row in rows]
        if is_raw:
            images = [tf.io.encode_png(pixels).numpy() for pixels in images]
        values = [row[label.name] for row in rows]
        if label.shape:
            targets = np.zeros((len(rows), len(label.class_names)), np.float32)
            for target, chosen in zip(targets, values, strict=True):
                target[chosen] = 1
        else:
            targets = np.array(values, np.int64)
        yield np.array(images, object), _as_outputs(about, label, targets), None


def _as_outputs(about: ModelDescription, label: Feature | None, targets: Any) -> Any:
    """Targets in the order of the model's outputs; a set may have some of its classes only."""
    if label is None or label.class_names == about.class_names:
        return targets
    places = np.array([about.class_names.index(name) for name in label.class_names], np.int64)
    if not label.shape:
        return places[targets]
    spread = np.zeros((len(targets), len(about.class_names)), np.float32)
    spread[:, places] = targets
    return spread


def _folder_of_classes(place: Place) -> Path | None:
    """The path of a folder of folders that is no set; None for anything else."""
    path = local_path(place)
    if path is None or not path.is_dir() or storage.stat(place / naming.MANIFEST) is not None:
        return None
    return path if any(each.is_dir() for each in path.iterdir()) else None


def _of_folder(
    predictor: Predictor, path: Path, folder: Path, on_progress: OnProgress
) -> Evaluation:
    """Measures on files as they were before preprocessing, otherwise like `evaluate`."""
    if predictor.multi_label:
        raise UsageError(
            f"{folder} gives each file one class, and {path} predicts any number. Pass a shard set."
        )
    classes = sorted(each.name for each in folder.iterdir() if each.is_dir())
    _require_known(classes, predictor.class_names, folder)
    files = [
        (name, file)
        for name in classes
        for file in sorted((folder / name).rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    ]
    scores = Scores(predictor.class_names, multi_label=False)
    failed: list[tuple[str, str]] = []
    ahead: collections.deque[str] = collections.deque()  # classes of the files of a batch

    def contents() -> Iterator[tuple[str, bytes]]:
        for name, file in files:
            try:
                content = file.read_bytes()
                if predictor.kind == "tokens":
                    content.decode()
            except (OSError, UnicodeDecodeError) as error:
                failed.append((str(file), str(error)))
                continue
            ahead.append(name)
            yield str(file), content

    for prediction in predictor.predict(contents()):
        name = ahead.popleft()
        if prediction.error:
            failed.append((prediction.name, prediction.error))
            continue
        shares = dict(prediction.classes)
        row = np.array([[shares[each] for each in predictor.class_names]], np.float32)
        target = np.array([predictor.class_names.index(name)], np.int64)
        losses, predicted = outcome_of(row, target, None, multi_label=False)
        scores.add(losses, predicted, target)
        on_progress(scores.records + len(failed), len(files))
    if not scores.records:
        raise InputError(
            f"No file in the folders of {folder} can be read. Pass a folder with a folder for each "
            "class."
        )
    return scores.result(
        model=str(path),
        runtime="keras" if (path / RUN).is_file() else "saved-model",
        data=str(folder),
        split=None,
        baseline=scores.most_frequent(folder.name),
        failed=failed,
    )
