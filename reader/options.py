"""The arguments of `reader.load`, each declared once, and checked before any file is opened.

`load`, `mix`, the flags of `shardmill read` and `shardmill train`, and the table in docs/reading.md
follow from the fields of `ReadOptions`; tests hold them equal.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foundation.options import Limits, check_declared, check_integer, option
from foundation.storage import Url
from foundation.wording import parse_size
from reader.order import geometry
from shard_format import Schema, UsageError

WHERE = "reader.load"
SHUFFLES = ("window", "full", "off")
CACHES = ("auto", "off", "memory", "disk")
CACHE_STAGES = ("stored", "decoded")
BALANCED = "balanced"
MAX_STREAMS = 4096  # a stream has 16 bits in `reader.order.numpy_order`
MAX_BUCKETS = 4096
MAX_EPOCHS = 1 << 32  # times the steps of an epoch, this still is an int64
MAX_THREADS = 4096  # TensorFlow starts all of them at once
_INT64 = (1 << 63) - 1
DTYPES = ("uint8", "float32")
_OF_PIXELS = ("image_size", "augment", "dtype", "normalize", "cache_stage")
NORMALIZATIONS = ("none", "zscore", "minmax")
PADS = ("longest", "max", "none")
CORRUPTIONS = ("raise", "skip")
REMAINDERS = ("drop", "keep", "pad", "wrap")

# What sets of each kind are called in messages.
KINDS = {
    "image": "images",
    "text": "raw text",
    "tokens": "token ids",
    "packed": "packed sequences",
    "record": "records of any features",
}
# A side in pixels. One such image takes 768 MiB; larger ones are meant to be cut into tiles.
MAX_IMAGE_SIZE = 1 << 14
# The default of `batch_size`. Any, so that type checkers see an int: None is refused when a set is
# loaded, with a message that says what to pass.
REQUIRED: Any = None

PathLike = str | os.PathLike[str]
Directory = PathLike | Url  # of a shard set
OnCached = Callable[[int, int], None]


def split_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names that are separated by commas, or in a sequence as the default of a flag."""
    if not isinstance(names, str):
        return tuple(names)
    return tuple(name.strip() for name in names.split(",") if name.strip())


def label_names(text: str) -> str | tuple[str, ...]:
    """The value of a flag: one name, or several separated by commas."""
    names = split_names(text)
    return names[0] if len(names) == 1 else names


def ignore_progress(done: int, total: int) -> None:
    """The default of `on_cached`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OrderOptions:
    """Which records a step reads, and what becomes of damaged ones."""

    split: str = option("train", "Name of a split of the set.", metavar="NAME")
    generation: int | None = option(
        None,
        "Number of a generation of the set, see 'shardmill log'.",
        details="A set that was appended to can be read as it was before.",
        metavar="N",
        type=int,
        limits=Limits(0, 1 << 31),
        shown="the newest",
    )
    batch_size: int = option(
        REQUIRED,
        "Records per batch.",
        details="Of all workers together; required.",
        metavar="N",
        type=int,
        limits=Limits(1),
        shown="required",
    )
    shuffle: str = option(
        "window",
        "Order of the records: window, full or off.",
        details='"window" permutes chunks of consecutive records, then records within windows of '
        'some thousands, anew in every epoch. "full" permutes the whole split and reads every '
        'record by itself. "off" keeps the order on disk.',
        choices=SHUFFLES,
    )
    seed: int = option(
        0,
        "Seed of the order and of the augmentation.",
        details="Both are functions of seed, epoch and record, and of nothing else.",
        metavar="N",
        type=int,
        limits=Limits(0, _INT64),
    )
    epochs: int | None = option(
        None,
        "Passes over the split; None is endless.",
        details="With a number the data set is finite, and gives the same epochs each time it is "
        "iterated.",
        metavar="N",
        type=int,
        limits=Limits(1, MAX_EPOCHS),
    )
    remainder: str | None = option(
        None,
        "What becomes of the records that do not fill the last batch of an epoch.",
        details='"drop" skips them, other ones in every epoch. "keep" gives a smaller batch; it '
        'needs epochs=1 and one worker, and is the default there. "wrap" fills the batch with the '
        'first records of the epoch. "pad" does so too and adds weights [batch] float32 to every '
        "batch, 0 for the added records: sums over all workers are then exact.",
        choices=REMAINDERS,
        shown="drop or keep",
    )
    on_corrupt: str = option(
        "raise",
        "What becomes of damaged records: raise ends the reading, skip leaves them out.",
        details='"raise" names file, byte offset and record. "skip" leaves out exactly the records '
        "that do not match their checksums, all of a missing shard too, and counts them in "
        "stream.skipped. All others keep their batches: a batch is smaller by what it lost, or "
        'with remainder="pad" the weight of that is 0.',
        choices=CORRUPTIONS,
    )
    worker: tuple[int, int] = option(
        (0, 1),
        "(i, n): read the i-th of n equal parts of every batch.",
        details="All workers have the same number of steps, and their batches together hold the "
        "same records whatever n is.",
    )
    state: Mapping[str, Any] | None = option(
        None,
        "A state of Stream.state, from a stream of any number of workers: the data set resumes "
        "there.",
        details="Order and augmentation continue exactly, if the other arguments are the same.",
    )
    streams: int | None = option(
        None,
        "Canonical streams that every epoch is divided into; the number of workers must divide "
        "them.",
        details="They are part of the order: choose before the training. Halved while one record "
        "of each takes more than 256 MiB.",
        metavar="N",
        type=int,
        limits=Limits(1, MAX_STREAMS),
        shown="64; 8 with buckets",
    )
    where: str | None = option(
        None,
        "Read only records that fit a condition on the columns of the index.",
        details="Such as \"words > 20 and language == 'en'\": columns, numbers, texts and names of "
        "classes, with == != < <= > >= in, and or not, + - * /. The records that are left are a "
        "split of their own, with an order of their own. It takes 8 bytes of memory for each.",
        metavar="CONDITION",
    )
    sample: str | Mapping[str, float] | None = option(
        None,
        'Draw records by class or by weight: "balanced", {class name: weight}, or a column of the '
        "index.",
        details="An epoch has as many draws as the split has records; records of rare classes, or "
        "of a large weight, are repeated, each time augmented anew. It takes 8 bytes of memory per "
        "record.",
    )
    buckets: int = option(
        1,
        "Number of groups of similar length that batches are taken from; 1 does not group.",
        details="Less padding is needed (info.tokens.padding_share). Each window of some thousands "
        "of records is divided by length into this many groups.",
        metavar="N",
        type=int,
        limits=Limits(1, MAX_BUCKETS),
        kinds=("tokens",),
    )

    def check_order(self) -> None:
        """Checks the options of this group against each other.

        Raises:
            UsageError: Two do not fit.
        """
        self._check_buckets()
        self._check_remainder()
        self._check_worker()
        self._check_sample()

    def _check_buckets(self) -> None:
        if self.buckets > 1 and self.shuffle != "window":
            raise UsageError(
                f"buckets={self.buckets} groups records within windows, which shuffle="
                f'{self.shuffle!r} does not have, in {WHERE}. Pass shuffle="window", or leave '
                "buckets out."
            )

    def _check_remainder(self) -> None:
        if self.remainder == "keep" and self.epochs != 1:
            raise UsageError(
                f"remainder='keep' does not work with epochs={self.epochs} in {WHERE}: a batch "
                "never spans two epochs. Pass epochs=1, or remainder='pad' or 'wrap'."
            )
        if self.remainder == "keep" and self.worker[1] != 1:
            raise UsageError(
                f"remainder='keep' does not work with worker={self.worker} in {WHERE}: some "
                "workers may have no record left for the last step. Pass remainder='pad'."
            )

    def _check_worker(self) -> None:
        given = self.worker
        if not isinstance(given, tuple) or len(given) != 2:
            raise UsageError(
                f"worker is {given!r} in {WHERE}. Pass a pair (index, count), such as "
                "worker=(0, 4)."
            )
        check_integer("the count in worker", given[1], 1)
        check_integer("the index in worker", given[0], 0, given[1] - 1)
        streams = int(self.streams or 0)
        if streams % given[1]:
            raise UsageError(
                f"{given[1]} workers do not divide the {streams} canonical streams in {WHERE}. "
                f"Pass streams={_next_multiple(streams, given[1])} for the whole training: streams "
                "are part of the order."
            )
        if self.batch_size % given[1]:
            raise UsageError(
                f"batch_size={self.batch_size} is not a multiple of the {given[1]} workers in "
                f"{WHERE}. It counts the records of all workers; pass "
                f"{_next_multiple(self.batch_size, given[1])}."
            )

    def _check_sample(self) -> None:
        if self.sample is None:
            return
        if not isinstance(self.sample, str | Mapping):
            raise UsageError(
                f'sample is {self.sample!r} in {WHERE}. Pass "balanced", the weights of classes, '
                'such as {"cat": 2.0, "dog": 1.0}, or the name of a column.'
            )
        if self.shuffle == "off" or self.buckets > 1:
            order = "shuffle='off'" if self.shuffle == "off" else f"buckets={self.buckets}"
            raise UsageError(
                f"sample draws records in an order of its own, not that of {order}, in {WHERE}. "
                "Leave one of them out."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContentOptions:
    """What a batch holds of its records."""

    image_size: int | None = option(
        None,
        "Height and width of the images in pixels.",
        details="None keeps the stored size, which must be the same for all images unless "
        "batch_size is 1.",
        metavar="N",
        type=int,
        limits=Limits(1, MAX_IMAGE_SIZE),
        kinds=("image",),
    )
    decode: bool = option(
        True,
        "Decode images; False hands out their bytes as they are stored.",
        details="For those who decode elsewhere, such as on a GPU. The images of a batch are then "
        "a list of [bytes] uint8 arrays, and [batch] strings in TensorFlow.",
        kinds=("image",),
    )
    augment: Any = option(
        "none",
        "Augmentation: none, standard or strong; for images also comma-separated transform names.",
        details='"none" crops images to the largest centered square. "standard" and "strong" crop '
        "and flip images and change their brightness and contrast; swap, drop and misspell words "
        "of raw text; drop or mask token ids; mask inputs of packed sequences. For images also "
        'names of reader.transforms.TRANSFORMS, such as "standard,rand_augment", or a list of '
        'names and transforms, such as ["standard", RandAugment(magnitude=5)], ordered by stage.',
        metavar="NAMES",
    )
    label: str | tuple[str, ...] | None = option(
        None,
        "Label feature that is the target; several give the targets by name.",
        details='A name, such as "colour"; None is the main label, which is called "label" or as '
        'its column. A tuple, such as ("label", "colour"), gives a dictionary of targets for a '
        'model with several outputs; see "Several labels".',
        metavar="A,B,...",
        type=label_names,
        shown="the main label",
    )
    features: tuple[str, ...] = option(
        (),
        "Further features of every record to hand out with the batch.",
        details='Names of the schema, such as ("caption",), or of a group of them, such as '
        '"objects" of "objects/bbox" and "objects/label". The inputs of a batch are then a '
        'dictionary; see "Further features".',
        metavar="A,B,...",
        type=split_names,
    )
    min_visible: float = option(
        0.0,
        "Least share of a box that a crop or a turn leaves in the image; else its object goes.",
        details="For features with objects, in [0, 1].",
        metavar="X",
        type=float,
        limits=Limits(0, 1),
        kinds=("image",),
    )
    list_size: int | None = option(
        None,
        "Values of every list among the further features; None gives each record its own number.",
        details="Lists are then filled up with zeros (labels with -1), or cut, and there is a "
        'count of the values of each record; see "Further features".',
        metavar="N",
        type=int,
        limits=Limits(1, 1 << 20),
    )
    dtype: str = option(
        "uint8",
        "Element type of the images; values are in [0, 255] either way.",
        choices=DTYPES,
        kinds=("image",),
    )
    normalize: str = option(
        "none",
        "Normalization of the pixels: none, zscore or minmax.",
        details='"zscore" subtracts the mean and divides by the standard deviation of each '
        'channel; "minmax" scales to [0, 1]. The statistics are those of the training split, '
        "whatever split is read. The result is float32 whatever the dtype.",
        choices=NORMALIZATIONS,
        kinds=("image",),
    )
    max_tokens: int | None = option(
        None,
        "Truncate records to this many tokens.",
        metavar="N",
        type=int,
        limits=Limits(1),
        kinds=("tokens",),
    )
    pad: str = option(
        "longest",
        "Padding of a batch: longest, max or none.",
        details='"longest" pads to the longest record of the batch, "max" to max_tokens or to the '
        'longest record of the split, with info.tokens.pad_id; "none" gives a tf.RaggedTensor.',
        choices=PADS,
        kinds=("tokens",),
    )
    segments: bool = option(
        True,
        "Give the document of every token; False gives the ids and the next ones alone.",
        details="Segments, positions and weights are left out: for models that attend to all that "
        "comes before, whatever document it is of. Padding then counts as tokens.",
        kinds=("packed",),
    )
    synonyms: PathLike | None = option(
        None,
        "A file of synonyms for the augmentation: comma-separated words, a group per line.",
        metavar="FILE",
        type=Path,
        kinds=("text",),
    )

    def check_content(self) -> None:
        """Checks the options of this group against each other.

        Raises:
            UsageError: Names are malformed, or two options do not fit.
        """
        label, features = self.label, self.features
        if label is not None and not isinstance(label, str):
            names = tuple(label) if isinstance(label, Sequence) else ()
            texts = {name for name in names if isinstance(name, str)}
            if not names or len(texts) < len(names):
                raise UsageError(
                    f"label is {label!r} in {WHERE}. Pass the name of a label, or a tuple of "
                    'distinct names, such as label=("label", "colour").'
                )
        if isinstance(features, str) or not isinstance(features, Sequence):
            raise UsageError(
                f"features is {features!r} in {WHERE}. Pass a tuple of names, such as "
                'features=("caption",).'
            )
        if not self.decode:
            self._check_undecoded()
        if self.synonyms is not None and self.augment == "none":
            raise UsageError(
                f"synonyms have no effect with augment='none' in {WHERE}. Pass "
                'augment="standard" or "strong", or leave synonyms out.'
            )

    def _check_undecoded(self) -> None:
        fields = {field.name: field for field in dataclasses.fields(self)}
        for name in _OF_PIXELS:
            value = getattr(self, name)
            if value != fields[name].default:
                raise UsageError(
                    f"{name}={value!r} is for pixels, which decode=False does not make, in "
                    f"{WHERE}. Leave one of them out."
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Where records are kept after they are read."""

    cache: str = option(
        "auto",
        "Where records are kept after they are read: auto, off, memory or disk.",
        details='"memory" holds the whole split, "disk" copies shards to cache_dir while the first '
        'epoch is read, and verifies them against the manifest. "auto" chooses by size and free '
        "memory; info.cache_reason says why. No cache changes a batch.",
        choices=CACHES,
    )
    cache_dir: PathLike | None = option(
        None,
        "Directory of cached copies; see 'shardmill cache'.",
        details="On a local disk; sets, splits and processes may share it.",
        metavar="DIR",
        type=Path,
        shown="~/.cache/shardmill",
    )
    cache_stage: str = option(
        "stored",
        "What a cache holds: records as stored, or decoded images.",
        details='"decoded" decodes all images once, before the first batch, and keeps 3 bytes per '
        'pixel; useful where decoding limits the training. "auto" never chooses it.',
        choices=CACHE_STAGES,
        kinds=("image",),
    )
    cache_limit: int | str | None = option(
        None,
        "Size limit of the cache directory, such as 200GB.",
        details="In bytes, or with a unit. Shards that were opened longest ago are evicted first, "
        "never those that a live process reads. Of a split that does not fit, as many shards are "
        "copied as fit, always the same ones.",
        metavar="SIZE",
        limits=Limits(1),
        shown="half of the free space",
    )
    on_cached: OnCached = option(
        ignore_progress,
        "Called with (bytes done, bytes of the split) while a cache is filled before the first "
        "batch.",
        details="Images are decoded then, and a set at a URL is read into memory.",
        shown="nothing is called",
    )

    def check_cache(self) -> None:
        """Checks that there is a cache if it is to hold decoded images.

        Raises:
            UsageError: There is none.
        """
        if self.cache_stage != "stored" and self.cache == "off":
            raise UsageError(
                f"cache_stage={self.cache_stage!r} has no effect with cache='off' in {WHERE}. "
                'Pass cache="memory" or "disk", or leave cache_stage out.'
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResourceOptions:
    """What reads and decodes: threads and memory of this process, or a service."""

    threads: int | None = option(
        None,
        "Threads that read, parse and decode.",
        metavar="N",
        type=int,
        limits=Limits(1, MAX_THREADS),
        shown="TensorFlow's, one per core",
    )
    ram_budget: int | None = option(
        None,
        "Bytes of memory for prefetched batches.",
        metavar="N",
        type=int,
        limits=Limits(1, _INT64),
        shown="half of the free memory",
    )
    service: str | None = option(
        None,
        "Address of 'shardmill serve', as grpc://host:port: its workers read, decode and augment.",
        details="They see the set under the same path. The batches of an epoch are the same, each "
        "exactly once, in an order that depends on the workers. A state can be taken between "
        "epochs only, and there is no cache.",
        metavar="ADDRESS",
    )


# The fields of the last base come first.
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadOptions(ResourceOptions, CacheOptions, ContentOptions, OrderOptions):
    """The keyword arguments of `reader.load`, documented by their declarations.

    `remainder` and `streams` are filled in where they are None, paths are made `Path`s, and
    `cache_limit` is made a number of bytes.
    """

    def __post_init__(self) -> None:
        if self.batch_size is None:
            raise UsageError(
                f"No batch_size in {WHERE}. Pass the number of records per batch, such as "
                "batch_size=64."
            )
        if isinstance(self.cache_limit, str):
            self._set("cache_limit", parse_size("cache_limit", self.cache_limit))
        for name in ("cache_dir", "synonyms"):
            path = getattr(self, name)
            self._set(name, None if path is None else Path(path).expanduser())
        if self.remainder is None:
            alone = self.epochs == 1 and self.worker == (0, 1)
            self._set("remainder", "keep" if alone else "drop")
        check_declared(self, WHERE)
        if self.streams is None:
            usual = geometry.STREAMS if self.buckets == 1 else geometry.BUCKET_STREAMS
            self._set("streams", usual)
        self.check_content()
        for name in ("label", "features"):
            value = getattr(self, name)
            self._set(name, value if value is None or isinstance(value, str) else tuple(value))
        self.check_order()
        self.check_cache()
        if self.service is not None:
            self._check_service()
            self._set("cache", "off")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_service(self) -> None:
        if self.cache not in ("auto", "off"):
            raise UsageError(
                f"cache={self.cache!r} does not work with service in {WHERE}: the workers read "
                'the files of the set. Leave cache out, or pass cache="off".'
            )
        if self.synonyms is not None:
            raise UsageError(
                f"synonyms={str(self.synonyms)!r} does not work with service in {WHERE}: the table "
                "exists in this process only. Leave one of them out."
            )
        if isinstance(self.sample, str) and self.sample != BALANCED:
            raise UsageError(
                f"sample={self.sample!r} does not work with service in {WHERE}: draws by weight "
                "are made by this process. Leave one of them out."
            )
        if not self.decode:
            raise UsageError(
                f"decode=False does not work with service in {WHERE}: decoding is what its workers "
                "are for. Leave one of them out."
            )
        if self.on_corrupt == "skip":
            raise UsageError(
                f"on_corrupt='skip' does not work with service in {WHERE}: damaged records are "
                "read again by this process. Leave one of them out."
            )


def kind_of(schema: Schema) -> str:
    """Which of `KINDS` a set is read as; an unknown record type is returned unchanged.

    Documents are stored as text, as token ids, or as packed sequences of them: the features decide.
    """
    if schema.record_type not in ("text", "tokens"):
        return schema.record_type
    names = {feature.name for feature in schema.features}
    if "tokens" not in names:
        return "text"
    return "packed" if "segments" in names else "tokens"


def check_fits(options: ReadOptions, kind: str, where: object) -> None:
    """Checks that every option that was given applies to this kind of set.

    Raises:
        UsageError: One does not; the message says what it is for.
    """
    for field in dataclasses.fields(options):
        name, value, kinds = field.name, getattr(options, field.name), field.metadata["kinds"]
        if not kinds or kind in kinds or value == field.default:
            continue
        meant = " and ".join(KINDS[kind] for kind in kinds)
        advice = f"Leave {name} out."
        if kind == "text" and "tokens" in kinds:
            advice += " Token ids are stored by 'shardmill preprocess text --train-tokenizer'."
        if kind == "packed" and "tokens" in kinds:
            advice += " Their length was set by 'shardmill preprocess text --pack'."
        raise UsageError(
            f"{name}={value} does not apply to {KINDS[kind]} in {where}: it is for {meant}. "
            f"{advice}"
        )


def _next_multiple(value: int, factor: int) -> int:
    return -(-value // factor) * factor
