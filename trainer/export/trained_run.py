"""A finished run: its model, and what was done to the records that it learnt from."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

from reader.transforms.normalization import Normalization
from shard_format import (
    Feature,
    InputError,
    Manifest,
    ShardSetError,
    UsageError,
    has_records_of,
    load_manifest,
    manifest_with,
)
from shard_format.storage import Place, place_of
from trainer.checkpointing.run_dir import BEST, MODEL, RUN
from trainer.model_files import load_model

# value of --epoch -> the file of the model
EPOCHS = {"last": MODEL, "best": BEST}


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A run that is done.

    Attributes:
        directory: Of the run.
        model_path: The `.keras` file that is used.
        kind: "image", "tokens" or "packed".
        class_names: Of every output; empty for a language model.
        options: Of the run, as run.json has them.
        normalization: What was done to the pixels in the end; None for nothing.
        data: The shard set.
        manifest: Of the set.
    """

    directory: Path
    model_path: Path
    kind: str
    class_names: tuple[str, ...]
    options: dict[str, Any]
    normalization: Normalization | None
    data: Place
    manifest: Manifest

    @functools.cached_property
    def model(self) -> Any:
        """The Keras model, to probabilities.

        Raises:
            InputError: It cannot be loaded.
        """
        return load_model(self.model_path)

    @property
    def multi_label(self) -> bool:
        """Whether a record may be of any number of classes."""
        label = self.label
        return label is not None and bool(label.shape)

    @property
    def label(self) -> Feature | None:
        """The label that was trained on; None for a language model."""
        from reader.record_types.features import labels_by_name

        if self.kind == "packed":
            return None
        labels = labels_by_name(self.manifest)
        return labels.get(self.options.get("label") or "", next(iter(labels.values()), None))

    @property
    def generation(self) -> int:
        """Number of the generation of the set that it learnt from."""
        return self.manifest.newest

    @property
    def evaluation_split(self) -> str | None:
        """The split that the run was validated on; None for none."""
        asked = self.options.get("validation_split", "auto")
        names = ("validation", "test") if asked == "auto" else (asked,)
        splits = self.manifest.splits
        return next((name for name in names if name in splits and splits[name].records), None)


def open_run(directory: Path, epoch: str = "last", data: Place | None = None) -> TrainedRun:
    """A finished run.

    Args:
        directory: Of the run.
        epoch: A key of EPOCHS.
        data: The shard set, if it has moved.

    Raises:
        UsageError: There is no run, or it is not done.
        ShardSetError: The set that it was trained on is not there.
        InputError: Its run.json cannot be read.
    """
    path = directory / RUN
    if not path.is_file():
        raise UsageError(
            f"No {RUN} in {directory}: it is not the directory of a run. Pass the --run-dir of "
            "'shardmill train'."
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        options, root_hash = found["options"], found["identity"]["root_hash"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}. Restore it.") from error
    model_path = directory / EPOCHS[epoch]
    if not model_path.is_file():
        advice = (
            "Finish it with the same 'shardmill train' command."
            if epoch == "last"
            else "A run without a validation split has none; pass --epoch last."
        )
        raise UsageError(f"No {model_path.name} in {directory}. {advice}")
    place = data or place_of(found["data"])
    manifest = _manifest_of(place, root_hash, directory, moved=data is None)
    import reader

    normalization = found.get("normalization")
    return TrainedRun(
        directory=directory,
        model_path=model_path,
        kind=reader.kind_of(manifest.schema),
        class_names=tuple(found.get("class_names", ())),
        options=options,
        normalization=normalization and Normalization(**_tuples(normalization)),
        data=place,
        manifest=manifest,
    )


def _manifest_of(place: Place, root_hash: str, directory: Path, *, moved: bool) -> Manifest:
    try:
        newest = load_manifest(place)
        manifest = manifest_with(place, root_hash) or newest
    except ShardSetError as error:
        if not moved:
            raise
        raise ShardSetError(
            f"{error} The run in {directory} was trained on it, and its preprocessing is needed: "
            "if the set has moved, pass --data SET."
        ) from error
    if manifest.root_hash != root_hash and not has_records_of(place, manifest.root_hash, root_hash):
        raise UsageError(
            f"{place} is another set (root hash {manifest.root_hash}) than the run in {directory} "
            f"was trained on ({root_hash}). Pass that set with --data."
        )
    return manifest


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
