"""The data of a run, from the reader."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from foundation.options import check_choice
from reader.order import geometry
from shard_format import Feature, Manifest, ShardSetError, UsageError, load_manifest
from trainer.baseline import Baseline, majority_baseline
from trainer.defaults import DEFAULTS
from trainer.models.shapes import InputShape, SequenceShape, TokenShape
from trainer.options import Settings, TrainOptions
from trainer.starting_programs import starting_program

# One process reads for all devices of its machine, so that documents need not be dealt to streams
# for several: with the 8 streams that are the reader's default, 16 groups leave 19 and 16 % of the
# positions of Banking77 and of film reviews empty, with one 17 and 11 %.
STREAMS = 1


# The options of both splits, which `reader.load` calls the same.
_SHARED = (
    *("label", "batch_size", "image_size", "normalize", "max_tokens"),
    *("cache", "cache_dir", "cache_limit", "on_corrupt", "generation"),
)


class BatchStream(Protocol):
    """Batches; `reader.load` returns one, and so does any test."""

    @property
    def dataset(self) -> Any:
        """Pairs of inputs and labels [batch] int64, or inputs, targets and weights.

        Labels are [batch, num_classes] float32, shares that add up to 1, where records are mixed,
        and any number of zeros and ones where records have any number of labels.
        Inputs are images [batch, size, size, 3], whose pixels are in [0, 255] unless --normalize
        says otherwise; token ids [batch, length] int64; or packed sequences, with targets and
        weights [batch, length] each (see `reader.load`).
        """

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one pass."""

    @property
    def info(self) -> Any:
        """Description of the stream, with the number of its `records`."""

    @property
    def first_step(self) -> int:
        """Steps before the data set begins."""

    def state(self, *, global_step: int) -> Mapping[str, Any]:
        """Where the stream is after so many steps of the whole run, as JSON can hold it."""


@dataclasses.dataclass(frozen=True)
class Data:
    """The data of one run.

    Attributes:
        root_hash: Identifies the shard set to the byte.
        class_names: The name of every label; labels are in [0, len(class_names)). Empty for a
            language model.
        open_training: Function from the state of such a stream to the rest of it, and from None to
            the beginning of an endless stream of full batches.
        validation: One pass over every example, the last batch partial; None to skip validation.
        validation_split: Name of the split that it reads; None without.
        baseline: Accuracy on that split of always answering the most frequent class of training;
            None without, and where records do not have one label.
        normalization: The `reader.Normalization` of all images, None for pixels in [0, 255].
        kind: "image", "tokens" or "packed".
        input_shape: What a model is fed; None for images of the size in the options.
        multi_label: Whether a record has any number of labels.
        class_weights: Weight of every class in the loss; None for none.
        text_of: Function from token ids to text, for people.
        manifest: Manifest of the set; None where there is none.
    """

    root_hash: str
    class_names: tuple[str, ...]
    open_training: Callable[[Mapping[str, Any] | None], BatchStream]
    validation: BatchStream | None
    normalization: Any = None
    kind: str = "image"
    input_shape: InputShape | None = None
    multi_label: bool = False
    class_weights: tuple[float, ...] | None = None
    text_of: Callable[[Sequence[int]], str] = str
    manifest: Manifest | None = None
    validation_split: str | None = None
    baseline: Baseline | None = None

    @property
    def num_outputs(self) -> int:
        """Length of the model's output: classes, or the token ids of a language model."""
        if isinstance(self.input_shape, SequenceShape):
            return self.input_shape.vocabulary_size
        return len(self.class_names)


def open_data(asked: TrainOptions, worker: tuple[int, int] = (0, 1)) -> Data:
    """The data set of a run, through the reader.

    Args:
        asked: The options of the run.
        worker: (i, n): of the i-th of n equal parts of every batch.

    Raises:
        ShardSetError: There is no shard set in `asked.data`.
        UsageError: The set has no such split, or is none to learn from.
    """
    manifest = load_manifest(asked.data, asked.generation)
    import reader  # loads TensorFlow
    from reader.records.vocabulary import text_of_ids
    from reader.transforms.normalization import find_normalization

    kind = reader.kind_of(manifest.schema)
    _require_kind(kind, manifest, asked)
    options = asked.settled(kind)
    splits = tuple(manifest.splits)
    _require_split("training", options.train_split, splits, options)
    # The reader would refuse it too, in words that are not of the command line.
    require_batch(manifest.splits[options.train_split].records, options)
    validation = _validation_split(options, manifest)
    label = None if kind == "packed" else _find_label(kind, manifest, options)

    _, workers = worker
    if options.batch_size % workers:
        raise UsageError(
            f"--batch-size {options.batch_size} is not a multiple of the {workers} workers. Pass "
            f"{options.batch_size // workers * workers or workers}."
        )

    shared: dict[str, Any] = {name: getattr(options, name) for name in _SHARED}
    shared |= {"buckets": options.buckets or 1, "worker": worker}
    if options.cache == "auto" and (workers > 1 or options.strategy == "parameter_server"):
        shared["cache"] = "off"  # one in memory would hold the parts of all workers

    def open_training(state: Mapping[str, Any] | None) -> BatchStream:
        stream = reader.load(
            options.data,
            split=options.train_split,
            where=options.where,
            augment=options.augment,
            seed=options.seed,
            state=state,
            cache_stage=options.cache_stage,
            streams=_streams(kind, workers, state, options),
            **shared,
        )
        if kind == "image":
            _require_channels_last(stream.info.element_shape, options)
        return stream

    has_one_shape = options.strategy == "tpu" or options.backend == "jax"

    def open_validation(split: str) -> BatchStream:
        return reader.load(
            options.data,
            split=split,
            augment="none",
            # Sums do not depend on the order, but batches of similar length take less time.
            shuffle="window" if kind == "tokens" else "off",
            epochs=1,
            # Several workers need equal parts: what fills up the last batch has no weight.
            # So do TPUs and JAX, whose graphs have one shape.
            remainder="keep" if workers == 1 and not has_one_shape else "pad",
            streams=_streams(kind, workers, None, options),
            **shared,
        )

    return Data(
        root_hash=manifest.root_hash,
        class_names=label.class_names if label else (),
        open_training=open_training,
        validation=None if validation is None else open_validation(validation),
        normalization=find_normalization(options.normalize, manifest, options.data),
        kind=kind,
        input_shape=_input_shape(kind, manifest, options),
        multi_label=label is not None and bool(label.shape),
        class_weights=_class_weights(label, manifest, options) if options.class_weights else None,
        text_of=lambda ids: text_of_ids(options.data, ids),
        manifest=manifest,
        validation_split=validation,
        baseline=None
        if validation is None
        else majority_baseline(manifest, label, options.train_split, validation),
    )


def _streams(
    kind: str, workers: int, state: Mapping[str, Any] | None, options: Settings
) -> int | None:
    """Canonical streams of a split, which the number of workers divides; None for the default.

    A run that is continued has those that it began with, however many workers there are now.

    Raises:
        UsageError: They cannot be shared by so many workers.
    """
    if state is not None:
        streams = int(state["streams"])
        if streams % workers:
            fitting = [number for number in range(1, streams + 1) if streams % number == 0]
            raise UsageError(
                f"The run in {options.run_dir} began with {streams} "
                f"{'stream' if streams == 1 else 'streams'} of records, which {workers} workers "
                f"cannot share equally. Continue it with {', '.join(map(str, fitting))} "
                f"{'worker' if streams == 1 else 'workers'}, or pass another --run-dir."
            )
        return streams
    if workers == 1:
        return STREAMS if kind == "tokens" else None
    usual = geometry.STREAMS if options.buckets in (None, 1) else geometry.BUCKET_STREAMS
    return -(-usual // workers) * workers


def _require_kind(kind: str, manifest: Manifest, options: TrainOptions) -> None:
    """Checks that sets of this kind can be learnt from.

    Raises:
        UsageError: It is raw text or records of a program, which models do not take.
        ShardSetError: It is of another kind.
    """
    if kind == "text":
        raise UsageError(
            f"{options.data} holds raw text, and models train on token ids. Build the set again "
            "with 'shardmill preprocess text ... --train-tokenizer bpe:8000', or with '--tokenizer "
            "FILE', and for a language model with '--pack 512' too."
        )
    if kind == "record":
        raise UsageError(
            f"{options.data} holds records of a program, which no model of shardmill learns. Write "
            "a loop over reader.load(...): docs/frameworks.md has some."
        )
    if kind not in DEFAULTS:
        names = ", ".join(
            f"{feature.name} ({feature.kind})" for feature in manifest.schema.features
        )
        raise ShardSetError(
            f"{options.data} holds records of type {kind!r} with {names}, which this version "
            f"cannot train on, only on {', '.join(DEFAULTS)}. Install a version of shardmill that "
            "knows them."
        )


def _require_channels_last(shape: tuple[int | None, ...], options: Settings) -> None:
    """Checks that images have the shape that validation and models have.

    Raises:
        UsageError: They have another one.
    """
    if shape != (options.image_size, options.image_size, 3):
        raise UsageError(
            f"--augment {options.augment} gives images of shape {list(shape)}, and models take "
            "[height, width, 3]. Leave channels_first out."
        )


def _input_shape(kind: str, manifest: Manifest, options: Settings) -> InputShape | None:
    """What a model of this set is fed; None for images of the size in the options."""
    from reader.records.vocabulary import find_vocabulary

    if kind == "image":
        return None
    vocabulary = find_vocabulary(options.data, manifest)
    if kind == "packed":
        return SequenceShape(manifest.schema["tokens"].shape[0] - 1, vocabulary.rows)
    return TokenShape(options.max_tokens or 0, vocabulary.rows, vocabulary.padding)


def _find_label(kind: str, manifest: Manifest, options: Settings) -> Feature:
    """The label that is trained on.

    Raises:
        UsageError: Records have no labels, or none of that name.
        ShardSetError: The set is none of labelled records, or has a single class.
    """
    from reader.record_types.features import labels_by_name

    features = manifest.schema.features
    labels = labels_by_name(manifest)
    if options.label is not None and labels:
        check_choice("--label", options.label, labels, options.data)
    label = labels.get(options.label or "", next(iter(labels.values()), None))
    kinds = {feature.kind for feature in features}
    what, inputs = ("image", "image") if kind == "image" else ("document", "int64")
    command = f"'shardmill preprocess {'images' if kind == 'image' else 'text'}'"
    if inputs in kinds and label is None:
        more = " For a language model build it with --pack 512." if kind == "tokens" else ""
        if program := starting_program(manifest.schema):
            more = f" Or, {program}."
        raise UsageError(
            f"Records of {options.data} have no labels, and models train on the labels of each "
            f"{what}. Build the set with {command} from one directory for each class, with "
            f"--labels FILE or with --label-column NAME.{more}"
        )
    if label is None or inputs not in kinds:
        names = ", ".join(f"{feature.name} ({feature.kind})" for feature in features)
        raise ShardSetError(
            f"{options.data} has {names}, and models train on the labels of each {what}. Build a "
            f"set with {command} from one directory for each class."
        )
    if len(label.class_names) < 2:
        raise ShardSetError(
            f"{options.data} has {len(label.class_names)} class, and training needs 2 or more. "
            "Build it from one directory for each class."
        )
    return label


def _class_weights(
    label: Feature | None, manifest: Manifest, options: Settings
) -> tuple[float, ...]:
    """Weight of every class, from the statistics of the training split.

    Raises:
        UsageError: The set has none.
    """
    statistics = manifest.splits[options.train_split].statistics
    if label is not None and label.name != "label":
        statistics = statistics.get("labels", {}).get(label.name, {})
    weights = statistics.get("class_weights")
    if label is None or label.shape or not weights:
        what = "one label per record" if label is None or label.shape else "class weights"
        raise UsageError(
            f"--class-weights needs {what}, and split {options.train_split!r} of {options.data} "
            "has none. Leave --class-weights out."
        )
    # In the first sets they are a list.
    values = [weights[name] for name in label.class_names] if isinstance(weights, dict) else weights
    return tuple(map(float, values))


def require_batch(records: int, options: Settings) -> None:
    """Checks that an epoch has at least one whole batch.

    Raises:
        UsageError: It has none.
        ShardSetError: It has no record at all.
    """
    if not records:
        raise ShardSetError(
            f"The training split of {options.data} has no records. Build the set again with a "
            "larger share for it."
        )
    if records < options.batch_size:
        raise UsageError(
            f"--batch-size {options.batch_size} exceeds the {records} training records of "
            f"{options.data}. Pass {records} or less."
        )


def _validation_split(options: Settings, manifest: Manifest) -> str | None:
    splits = manifest.splits
    if options.validation_split == "none":
        return None
    if options.validation_split == "auto":
        # Never test: the best of many epochs is best there by chance too.
        has_records = "validation" in splits and splits["validation"].records
        return "validation" if has_records else None
    _require_split("validation", options.validation_split, tuple(splits), options)
    return options.validation_split


def _require_split(role: str, name: str, splits: tuple[str, ...], options: Settings) -> None:
    if name not in splits:
        raise UsageError(
            f"Unknown {role} split {name!r} in {options.data}. Pass one of {', '.join(splits)}, or "
            "build the set again with --split."
        )
