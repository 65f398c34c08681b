"""What the trainer needs to know of its data, and how it gets that from the reader."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from shard_format import Manifest, ShardSetError, UsageError, load_manifest
from trainer.options import TrainOptions


class StreamInfo(Protocol):
    """What a stream is made of."""

    @property
    def records(self) -> int:
        """Records of the split."""


class Stream(Protocol):
    """Batches of pictures; `reader.load` returns one, and so does any test."""

    @property
    def dataset(self) -> Any:
        """Pairs of images [batch, size, size, 3] and labels [batch] int64.

        Pixels lie in [0, 255] unless --normalize says otherwise.
        """

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one pass."""

    @property
    def info(self) -> StreamInfo:
        """What the stream is made of."""


@dataclasses.dataclass(frozen=True)
class Data:
    """The data of one run.

    Attributes:
        root_hash: Identifies the shard set to the byte.
        class_names: The name of every label; labels lie in [0, len(class_names)).
        open_training: From the number of epochs that are done to an endless stream of full batches.
        validation: One pass over every example, the last batch partial; None to skip validation.
        normalization: The `reader.Normalization` of all pictures, None for pixels in [0, 255].
    """

    root_hash: str
    class_names: tuple[str, ...]
    open_training: Callable[[int], Stream]
    validation: Stream | None
    normalization: Any = None


def open_data(options: TrainOptions) -> Data:
    """The data set of a run, through the reader.

    Raises:
        ShardSetError: There is no shard set in `options.data`.
        UsageError: The set has no such split, or no pictures with classes.
    """
    import reader  # loads TensorFlow
    from reader.normalization import find_normalization

    manifest = load_manifest(options.data)
    splits = tuple(manifest.splits)
    _require_split("training", options.train_split, splits, options)
    # The reader would refuse it too, in words that are not of the command line.
    require_batch(manifest.splits[options.train_split].records, options)
    validation = _validation_split(options, splits)

    def open_training(epochs_done: int) -> Stream:
        return reader.load(
            options.data,
            split=options.train_split,
            batch_size=options.batch_size,
            image_size=options.image_size,
            augment=options.augment,
            # A continued run starts the order of its remaining epochs afresh: every epoch is still
            # complete, and no epoch is repeated. Skipping what was read would decode it all again.
            seed=options.seed + epochs_done,
            cache=options.cache,
            normalize=options.normalize,
        )

    return Data(
        root_hash=manifest.root_hash,
        class_names=_class_names(manifest, options),
        open_training=open_training,
        validation=None
        if validation is None
        else reader.load(
            options.data,
            split=validation,
            batch_size=options.batch_size,
            image_size=options.image_size,
            augment="none",
            shuffle="off",
            epochs=1,
            cache=options.cache,
            drop_remainder=False,
            normalize=options.normalize,
        ),
        normalization=find_normalization(options.normalize, manifest, options.data),
    )


def _class_names(manifest: Manifest, options: TrainOptions) -> tuple[str, ...]:
    """The classes of a set whose every record has one.

    Raises:
        UsageError: Records have any number of labels, or none: the loop knows one loss.
        ShardSetError: The set is none of labelled pictures, or has a single class.
    """
    features = manifest.schema.features
    kinds = {feature.kind: feature.shape for feature in features}
    if "image" in kinds and kinds.get("class_label") != ():
        found = "any number of labels" if "class_label" in kinds else "no labels"
        raise UsageError(
            f"the trainer learns one class label from one image, got a set with {found} a record "
            f"in {options.data}. Read it with reader.load and train it in a loop of your own, or "
            "build a set without --multi-label and --no-labels."
        )
    labels = [feature for feature in features if feature.kind == "class_label"]
    if len(labels) != 1 or not any(feature.kind == "image" for feature in features):
        found = ", ".join(f"{feature.name} ({feature.kind})" for feature in features)
        raise ShardSetError(
            f"the trainer learns one class label from one image, got {found} in {options.data}. "
            "Build a set with 'shardmill preprocess images', from one directory for each class."
        )
    if len(labels[0].class_names) < 2:
        raise ShardSetError(
            f"a set must have 2 classes or more to learn from, got {len(labels[0].class_names)} "
            f"in {options.data}. Build it from one directory for each class."
        )
    return labels[0].class_names


def require_batch(records: int, options: TrainOptions) -> None:
    """Returns if an epoch has at least one whole batch.

    Raises:
        UsageError: It has none.
    """
    if records < options.batch_size:
        raise UsageError(
            f"--batch-size must be at most the number of training records, got "
            f"{options.batch_size} for {records} records in {options.data}. Pass {records} or less."
        )


def _validation_split(options: TrainOptions, splits: tuple[str, ...]) -> str | None:
    if options.validation_split == "none":
        return None
    if options.validation_split == "auto":
        return next((name for name in ("validation", "test") if name in splits), None)
    _require_split("validation", options.validation_split, splits, options)
    return options.validation_split


def _require_split(role: str, name: str, splits: tuple[str, ...], options: TrainOptions) -> None:
    if name not in splits:
        raise UsageError(
            f"the {role} split must be one of {', '.join(splits)}, got {name!r} in {options.data}. "
            "Pass one of these, or build the set again with --split."
        )
