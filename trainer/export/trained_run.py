"""A finished run: its model, and what was done to the records that it learnt from."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

from foundation.storage import Place, place_of
from reader.transforms.normalization import Normalization
from shard_format import (
    Feature,
    Manifest,
    ShardSetError,
    has_records_of,
    load_manifest,
    manifest_with,
)
from trainer.checkpointing.kept_set import kept_manifest
from trainer.export.locating import read_run
from trainer.model_files import load_model


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A run that is done.

    Attributes:
        directory: Directory of the run.
        model_path: The `.keras` file that is used.
        kind: "image", "tokens" or "packed".
        class_names: Name of every output; empty for a language model.
        options: Options of the run, as run.json has them.
        normalization: What was done to the pixels in the end; None for nothing.
        data: The shard set, whose records may have changed since; see `open_set`.
        root_hash: Root hash of the set that it was trained on.
        manifest: Manifest of the set that it was trained on.
        tokenizer_folder: Folder of the tokenizer, where records are token ids: of the run, or the
            set of a run of an earlier version.
    """

    directory: Path
    model_path: Path
    kind: str
    class_names: tuple[str, ...]
    options: dict[str, Any]
    normalization: Normalization | None
    data: Place
    root_hash: str
    manifest: Manifest
    tokenizer_folder: Place

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
    def evaluation_split(self) -> str | None:
        """The split that the run was validated on; None for none."""
        asked = self.options.get("validation_split", "auto")
        name = "validation" if asked == "auto" else asked
        splits = self.manifest.splits
        return name if name in splits and splits[name].records else None

    def open_set(self, purpose: str, *, may_differ: bool = False) -> Manifest:
        """The manifest of the shard set as it is now, for what reads records of it.

        Args:
            purpose: What reads them, for messages.
            may_differ: Whether other records will do, in a set of the same features and tokenizer.

        Raises:
            ShardSetError: The set is not there, or it is another one now.
        """
        like = self.manifest if may_differ else None
        return _manifest_of(self.data, self.root_hash, self.directory, purpose, like)


def open_run(directory: Path, epoch: str = "last", data: Place | None = None) -> TrainedRun:
    """A finished run, which needs nothing but its directory.

    A run of an earlier version needs its set too, which it has kept nothing of.

    Args:
        directory: Directory of the run.
        epoch: A key of `trainer.export.locating.EPOCHS`.
        data: The shard set, if it has moved.

    Raises:
        UsageError: It is not done.
        ShardSetError: The set of a run of an earlier version is not there.
        InputError: There is no run, or its run.json cannot be read.
        DamageError: What it keeps of its set is not as it was written.
    """
    import reader

    record = read_run(directory, epoch)
    place = data or place_of(record.content["data"])
    kept = kept_manifest(directory)
    manifest = kept or _manifest_of(
        place, record.root_hash, directory, "A run of an earlier version"
    )
    normalization = record.content.get("normalization")
    return TrainedRun(
        directory=directory,
        model_path=record.model_path,
        kind=reader.kind_of(manifest.schema),
        class_names=tuple(record.content.get("class_names", ())),
        options=record.options,
        normalization=normalization and Normalization(**_tuples(normalization)),
        data=place,
        root_hash=record.root_hash,
        manifest=manifest,
        tokenizer_folder=directory if kept else place,
    )


def _manifest_of(
    place: Place, root_hash: str, directory: Path, purpose: str, like: Manifest | None = None
) -> Manifest:
    """The manifest of the set of a run, or of another one with records like those of a manifest."""
    try:
        manifest = manifest_with(place, root_hash) or load_manifest(place)
    except ShardSetError as error:
        raise ShardSetError(
            f"{error} {purpose} needs the set that the run in {directory} was trained on: if it "
            "has moved, pass --data SET."
        ) from error
    if manifest.root_hash == root_hash or has_records_of(place, manifest.root_hash, root_hash):
        return manifest
    if like is not None and _alike(manifest, like):
        return manifest
    raise ShardSetError(
        f"{place} is another set (root hash {manifest.root_hash}) than the run in {directory} was "
        f"trained on ({root_hash}). {purpose} needs that set: pass it with --data."
    )


def _alike(one: Manifest, two: Manifest) -> bool:
    """Whether records of two sets mean the same to a model."""
    names = ("tokenizer", "vocabulary")
    return one.schema == two.schema and all(
        one.config.get(name) == two.config.get(name) for name in names
    )


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def in_float32(model: Any) -> Any:
    """The same network with the same weights, every layer in float32.

    Devices and other runtimes have no mixed precision.
    """
    import keras

    described = keras.saving.serialize_keras_object(model)
    copy = keras.saving.deserialize_keras_object(_float32(described))
    copy.set_weights(model.get_weights())
    return copy


def _float32(described: Any) -> Any:
    """A serialized object with its dtype policies replaced."""
    if isinstance(described, dict):
        if described.get("class_name") == "DTypePolicy":
            return {**described, "config": {"name": "float32"}}
        return {
            key: "float32" if key == "dtype" and _is_mixed(value) else _float32(value)
            for key, value in described.items()
        }
    if isinstance(described, (list, tuple)):
        return type(described)(map(_float32, described))
    return described


def _is_mixed(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("mixed_")
