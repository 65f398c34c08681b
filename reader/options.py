"""What a caller may ask of the reader, checked before any file is opened."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reader.transforms import AUGMENTATIONS
from shard_format import UsageError

SHUFFLES = ("window", "off")
CACHES = ("auto", "off", "memory", "disk")
DTYPES = ("uint8", "float32")
NORMALIZATIONS = ("none", "zscore", "minmax")
PADS = ("longest", "max", "none")

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
}


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """The options of `reader.load`.

    Attributes:
        split: Name of a split of the set.
        batch_size: Records per batch, at least 1.
        image_size: Height and width of the pictures of a batch in pixels; None leaves every
            picture at its stored size.
        augment: One of `reader.transforms.AUGMENTATIONS`.
        shuffle: "window" for another order in every epoch, "off" for the order on disk.
        seed: In [0, 2**63); order and augmentation are functions of it.
        epochs: How often the split is read, at least 1; None is endless.
        cache: One of `CACHES`.
        cache_dir: Where `cache="disk"` keeps shards; None is the user's cache directory.
        drop_remainder: Whether an epoch ends with its last full batch. None means True, except
            where epochs is 1: there the last batch may be smaller.
        dtype: Element type of the pictures, "uint8" or "float32"; values in [0, 255] either way.
        normalize: "none" leaves them so; "zscore" and "minmax" make float32 of any dtype.
        max_tokens: Records of token ids are cut to that many; None cuts none.
        pad: One of `PADS`.
        buckets: How many groups of similar length the records of a window fall into; 1 is none.
        synonyms: The file with the words that may stand for each other, or None.
    """

    split: str
    batch_size: int
    image_size: int | None
    augment: str
    shuffle: str
    seed: int
    epochs: int | None
    cache: str
    cache_dir: Path | None
    drop_remainder: bool | None
    dtype: str
    normalize: str
    max_tokens: int | None = None
    pad: str = "longest"
    buckets: int = 1
    synonyms: Path | None = None

    def __post_init__(self) -> None:
        check_choice("augment", self.augment, AUGMENTATIONS)
        check_choice("shuffle", self.shuffle, SHUFFLES)
        check_choice("cache", self.cache, CACHES)
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("normalize", self.normalize, NORMALIZATIONS)
        check_choice("pad", self.pad, PADS)
        _check_integer("batch_size", self.batch_size, 1)
        _check_integer("buckets", self.buckets, 1)
        _check_integer("seed", self.seed, 0, (1 << 63) - 1)
        if self.epochs is not None:
            _check_integer("epochs", self.epochs, 1)
        if self.image_size is not None:
            _check_integer("image_size", self.image_size, 1)
        if self.max_tokens is not None:
            _check_integer("max_tokens", self.max_tokens, 1)
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
        if self.drop_remainder is False and self.epochs != 1:
            raise UsageError(
                "drop_remainder=False needs epochs=1, since no batch may mix two epochs, got "
                f"epochs={self.epochs} in reader.load. Pass epochs=1 or leave drop_remainder out."
            )

    @property
    def drops_remainder(self) -> bool:
        """`drop_remainder` with its default filled in."""
        return self.epochs != 1 if self.drop_remainder is None else self.drop_remainder


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


def check_choice(
    what: str, value: object, choices: Iterable[str], where: object = "reader.load"
) -> None:
    """Returns if the value is one of the choices.

    Raises:
        UsageError: It is not; the message lists the choices and names the nearest.
    """
    names = list(choices)
    if value in names:
        return
    near = difflib.get_close_matches(str(value), names, n=1)
    advice = f"Did you mean {near[0]!r}?" if near else f"Choose {_listed(names)}."
    raise UsageError(
        f"{what} must be one of {', '.join(names)}, got {value!r} in {where}. {advice}"
    )


def _listed(names: list[str]) -> str:
    return " or ".join(repr(name) for name in names)


def _check_integer(what: str, value: Any, low: int, high: int | None = None) -> None:
    # bool is an int to Python; batch_size=True is a slip, not a batch of one.
    if isinstance(value, int) and not isinstance(value, bool) and value >= low:
        if high is None or value <= high:
            return
    limits = f"at least {low}" if high is None else f"in [{low}, {high}]"
    raise UsageError(
        f"{what} must be a whole number {limits}, got {value!r} in reader.load. Correct it."
    )
