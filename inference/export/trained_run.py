"""A finished run: its model, and what was done to the records that it learnt from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation.storage import Place, place_of
from inference.export.locating import read_run
from reader.transforms.normalization import Normalization
from shard_format import Manifest, ShardSetError, has_records_of, load_manifest, manifest_with
from trainer.checkpointing.kept_set import kept_manifest
from trainer.devices import require_backend
from trainer.model_files import load_model


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """What is known of a trained model.

    Attributes:
        kind: "image", "tokens" or "packed".
        class_names: Name of every output; empty for a language model.
        multi_label: Whether a record may be of any number of classes.
        options: Options of the run, as far as they are known.
        normalization: What is done to the pixels before the model; None for nothing.
        data: The shard set of the training, whose records may have changed since; None where
            nothing says.
        root_hash: Root hash of the set that it was trained on.
        manifest: Manifest of that set, as the run has kept it; None where nothing has.
        tokenizer_folder: Folder of the tokenizer, where records are token ids: of the run, or the
            set of a run of an earlier version; None where nothing says.
    """

    kind: str
    class_names: tuple[str, ...]
    multi_label: bool
    options: Mapping[str, Any]
    normalization: Normalization | None
    data: Place | None
    root_hash: str
    manifest: Manifest | None
    tokenizer_folder: Place | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainedRun(ModelDescription):
    """A run that is done.

    Attributes:
        directory: Directory of the run.
        model_path: The `.keras` file that is used.
    """

    data: Place
    manifest: Manifest
    tokenizer_folder: Place
    directory: Path
    model_path: Path

    @functools.cached_property
    def model(self) -> Any:
        """The Keras model, to probabilities.

        Raises:
            InputError: It cannot be loaded.
            UsageError: Keras does not run on TensorFlow.
        """
        require_backend()
        return load_model(self.model_path)

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
        return own_manifest(self.data, self.root_hash, _name(self.directory), purpose, like=like)


def open_run(directory: Path, epoch: str = "last", data: Place | None = None) -> TrainedRun:
    """A finished run, which needs nothing but its directory.

    A run of an earlier version needs its set too, which it has kept nothing of.

    Args:
        directory: Directory of the run.
        epoch: A key of `inference.export.locating.EPOCHS`.
        data: The shard set, if it has moved.

    Raises:
        UsageError: It is not done.
        ShardSetError: The set of a run of an earlier version is not there.
        InputError: There is no run, or its run.json cannot be read.
        DamageError: What it keeps of its set is not as it was written.
    """
    import reader
    from reader.record_types.features import labels_by_name

    record = read_run(directory, epoch)
    place = data or place_of(record.content["data"])
    kept = kept_manifest(directory)
    manifest = kept or own_manifest(
        place, record.root_hash, _name(directory), "A run of an earlier version"
    )
    kind, labels = reader.kind_of(manifest.schema), labels_by_name(manifest)
    label = labels.get(record.options.get("label") or "", next(iter(labels.values()), None))
    return TrainedRun(
        directory=directory,
        model_path=record.model_path,
        kind=kind,
        class_names=tuple(record.content.get("class_names", ())),
        multi_label=kind != "packed" and label is not None and bool(label.shape),
        options=record.options,
        normalization=normalization_of(record.content.get("normalization")),
        data=place,
        root_hash=record.root_hash,
        manifest=manifest,
        tokenizer_folder=directory if kept else place,
    )


def own_manifest(
    place: Place,
    root_hash: str,
    model: str,
    purpose: str,
    otherwise: str = "",
    like: Manifest | None = None,
) -> Manifest:
    """The manifest of the set that a model was trained on, as it is now.

    Args:
        place: Where the set should be.
        root_hash: Root hash of the set of the training.
        model: What messages call the model.
        purpose: What needs the set, for messages.
        otherwise: What can be done without it, to end a message with.
        like: A set with the same features and tokenizer as in this manifest will do.

    Raises:
        ShardSetError: The set is not there, or it is another one now.
    """
    try:
        manifest = manifest_with(place, root_hash) or load_manifest(place)
    except ShardSetError as error:
        raise ShardSetError(
            f"{error} {purpose} needs the set that {model} was trained on: if it has moved, pass "
            "--data SET."
        ) from error
    if manifest.root_hash == root_hash or has_records_of(place, manifest.root_hash, root_hash):
        return manifest
    if like is not None and _alike(manifest, like):
        return manifest
    raise ShardSetError(
        f"{place} is another set (root hash {manifest.root_hash}) than {model} was trained on "
        f"({root_hash}). {purpose} needs that set: pass it with --data{otherwise}."
    )


def _name(directory: Path) -> str:
    return f"the run in {directory}"


def _alike(one: Manifest, two: Manifest) -> bool:
    """Whether records of two sets mean the same to a model."""
    names = ("tokenizer", "vocabulary")
    return one.schema == two.schema and all(
        one.config.get(name) == two.config.get(name) for name in names
    )


def normalization_of(values: dict[str, Any] | None) -> Normalization | None:
    """What run.json and export.json say of the normalization."""
    if values is None:
        return None
    return Normalization(values["mode"], tuple(values["shift"]), tuple(values["scale"]))


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
