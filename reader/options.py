"""What a caller may ask of the reader, checked before any file is opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reader.checks import check_choice, check_integer
from reader.geometry import default_streams
from shard_format import UsageError
from shard_format.wording import parse_size

SHUFFLES = ("window", "full", "off")
CACHES = ("auto", "off", "memory", "disk")
CACHE_STAGES = ("stored", "decoded")
SAMPLES = ("balanced",)
MAX_STREAMS = 4096  # of the 16 bits for a stream in `reader.order`
MAX_BUCKETS = 4096
MAX_EPOCHS = 1 << 32  # times the steps of one they still are an int64
# TensorFlow makes all threads at once, and holds the bytes in an int64.
_MOST = {"threads": 4096, "ram_budget": (1 << 63) - 1, "cache_limit": None}
DTYPES = ("uint8", "float32")
NORMALIZATIONS = ("none", "zscore", "minmax")
PADS = ("longest", "max", "none")
# How an epoch ends whose records are no multiple of the batch: "drop" leaves the rest out (another
# one in every epoch), "keep" gives a smaller batch, "wrap" fills it up with the first records of
# the epoch, "pad" too but with weights of 0.
REMAINDERS = ("drop", "keep", "pad", "wrap")

# What sets of each kind are called in messages.
KINDS = {
    "image": "pictures",
    "text": "raw text",
    "tokens": "token ids",
    "packed": "packed sequences",
}
# option -> (its value where it was not given, the kinds of sets that it is for)
_FITTING: dict[str, tuple[object, tuple[str, ...]]] = {
    "image_size": (None, ("image",)),
    "dtype": ("uint8", ("image",)),
    "normalize": ("none", ("image",)),
    "max_tokens": (None, ("tokens",)),
    "pad": ("longest", ("tokens",)),
    "buckets": (1, ("tokens",)),
    "synonyms": (None, ("text",)),
    "cache_stage": ("stored", ("image",)),
}


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """The options of `reader.load`.

    Attributes:
        split: Name of a split of the set.
        batch_size: Records per batch, at least 1.
        image_size: Height and width of the pictures of a batch in pixels; None leaves every
            picture at its stored size.
        augment: Names, or a list of names and transforms; which there are depends on the kind of
            set, and is checked when that is known.
        shuffle: One of `SHUFFLES`: "window" and "full" give another order in every epoch, "off"
            the order on disk.
        seed: In [0, 2**63); order and augmentation are functions of it.
        epochs: How often the split is read, at least 1; None is endless.
        cache: One of `CACHES`.
        cache_dir: Where `cache="disk"` keeps shards; None is the user's cache directory.
        cache_stage: One of `CACHE_STAGES`.
        cache_limit: Bytes that cache_dir may hold, also as "200GB"; None is half of what is free or
            its own.
        remainder: One of `REMAINDERS`; None means "drop", except where one worker reads one
            epoch: there "keep".
        dtype: Element type of the pictures, "uint8" or "float32"; values in [0, 255] either way.
        normalize: "none" leaves them so; "zscore" and "minmax" make float32 of any dtype.
        max_tokens: Records of token ids are cut to that many; None cuts none.
        pad: One of `PADS`.
        buckets: How many groups of similar length the records of a window fall into; 1 is none.
        synonyms: The file with the words that may stand for each other, or None.
        worker: (i, n), which worker of how many reads.
        streams: Canonical streams; a multiple of n. None means the default, filled in here.
        sample: Nothing, "balanced", or the weights of classes by their names.
        threads: How many threads the data set has; None shares those of TensorFlow.
        ram_budget: Bytes that autotuning may take for what is prefetched; None is its default.
    """

    split: str
    batch_size: int
    image_size: int | None
    augment: Any
    shuffle: str
    seed: int
    epochs: int | None
    cache: str
    cache_dir: Path | None
    dtype: str
    normalize: str
    max_tokens: int | None = None
    pad: str = "longest"
    buckets: int = 1
    synonyms: Path | None = None
    remainder: str | None = None
    worker: tuple[int, int] = (0, 1)
    streams: int | None = None
    sample: str | Mapping[str, float] | None = None
    threads: int | None = None
    ram_budget: int | None = None
    cache_stage: str = "stored"
    cache_limit: int | str | None = None

    def __post_init__(self) -> None:
        check_choice("shuffle", self.shuffle, SHUFFLES)
        check_choice("cache", self.cache, CACHES)
        check_choice("cache_stage", self.cache_stage, CACHE_STAGES)
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("normalize", self.normalize, NORMALIZATIONS)
        check_choice("pad", self.pad, PADS)
        check_integer("batch_size", self.batch_size, 1)
        check_integer("buckets", self.buckets, 1, MAX_BUCKETS)
        check_integer("seed", self.seed, 0, (1 << 63) - 1)
        if self.epochs is not None:
            check_integer("epochs", self.epochs, 1, MAX_EPOCHS)
        if self.image_size is not None:
            check_integer("image_size", self.image_size, 1)
        if self.max_tokens is not None:
            check_integer("max_tokens", self.max_tokens, 1)
        if self.buckets > 1 and self.shuffle == "off":
            raise UsageError(
                f"buckets={self.buckets} changes the order, got shuffle='off' in reader.load. "
                "Leave one of them out."
            )
        if self.synonyms is not None and self.augment == "none":
            raise UsageError(
                "synonyms are for augmentation, got augment='none' in reader.load. Pass "
                'augment="standard" or "strong", or leave synonyms out.'
            )
        if self.cache_stage != "stored" and self.cache == "off":
            raise UsageError(
                f"cache_stage={self.cache_stage!r} needs a cache, got cache='off' in reader.load. "
                'Pass cache="memory" or "disk", or leave cache_stage out.'
            )
        if isinstance(self.cache_limit, str):
            object.__setattr__(self, "cache_limit", parse_size("cache_limit", self.cache_limit))
        for name, most in _MOST.items():
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1, most)
        if self.buckets > 1 and self.shuffle == "full":
            raise UsageError(
                f"buckets={self.buckets} divides windows, got shuffle='full' in reader.load. "
                'Pass shuffle="window", or leave buckets out.'
            )
        self._check_remainder()
        if self.streams is None:
            object.__setattr__(self, "streams", default_streams(self.buckets))
        self._check_worker()
        self._check_sample()

    def _check_remainder(self) -> None:
        if self.remainder is None:
            alone = self.epochs == 1 and self.worker == (0, 1)
            object.__setattr__(self, "remainder", "keep" if alone else "drop")
        check_choice("remainder", self.remainder, REMAINDERS)
        if self.remainder == "keep" and self.epochs != 1:
            raise UsageError(
                "remainder='keep' needs epochs=1, since no batch may mix two epochs, got "
                f"epochs={self.epochs} in reader.load. Pass epochs=1, or remainder='pad' or 'wrap'."
            )
        if self.remainder == "keep" and self.worker[1] != 1:
            raise UsageError(
                "remainder='keep' needs one worker, since others may have nothing left for the "
                f"last step, got worker={self.worker} in reader.load. Pass remainder='pad'."
            )

    def _check_worker(self) -> None:
        given = self.worker
        if not isinstance(given, tuple) or len(given) != 2:
            raise UsageError(
                f"worker must be a pair (index, count), got {given!r} in reader.load. Pass for "
                "example worker=(0, 4)."
            )
        check_integer("the count in worker", given[1], 1)
        check_integer("the index in worker", given[0], 0, given[1] - 1)
        check_integer("streams", self.streams, 1, MAX_STREAMS)
        streams = int(self.streams or 0)
        if streams % given[1]:
            raise UsageError(
                f"the count in worker must divide the canonical streams ({streams}), got "
                f"{given[1]} in reader.load. Pass streams={_next_multiple(streams, given[1])} "
                "for the whole training, since they are part of the order."
            )
        if self.batch_size % given[1]:
            raise UsageError(
                f"batch_size must be a multiple of the count in worker ({given[1]}), got "
                f"{self.batch_size} in reader.load. It counts the records of all workers; pass "
                f"{_next_multiple(self.batch_size, given[1])}."
            )

    def _check_sample(self) -> None:
        if self.sample is None:
            return
        if isinstance(self.sample, str):
            check_choice("sample", self.sample, SAMPLES)
        elif not isinstance(self.sample, Mapping):
            raise UsageError(
                f'sample must be "balanced" or the weights of classes, got {self.sample!r} in '
                'reader.load. Pass for example {"cat": 2.0, "dog": 1.0}.'
            )
        if self.shuffle == "off" or self.buckets > 1:
            found = "shuffle='off'" if self.shuffle == "off" else f"buckets={self.buckets}"
            raise UsageError(
                f"sample draws records in an order of its own, got {found} in reader.load. Leave "
                "one of them out."
            )


def check_fits(options: ReadOptions, kind: str, where: object) -> None:
    """Returns if every option that was given is one for this kind of set.

    Raises:
        UsageError: One is not; the message says what it is for.
    """
    for name, (absent, kinds) in _FITTING.items():
        value = getattr(options, name)
        if value == absent or kind in kinds:
            continue
        meant = " and ".join(KINDS[kind] for kind in kinds)
        advice = f"Leave {name} out."
        if kind == "text" and "tokens" in kinds:
            advice += " Token ids are stored by 'shardmill preprocess text --train-tokenizer'."
        if kind == "packed" and "tokens" in kinds:
            advice += " Their length was set by 'shardmill preprocess text --pack'."
        raise UsageError(
            f"{name} is for sets of {meant}, got {name}={value} for {KINDS[kind]} in "
            f"{where}. {advice}"
        )


def _next_multiple(value: int, factor: int) -> int:
    return -(-value // factor) * factor
