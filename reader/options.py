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

    def __post_init__(self) -> None:
        check_choice("augment", self.augment, AUGMENTATIONS)
        check_choice("shuffle", self.shuffle, SHUFFLES)
        check_choice("cache", self.cache, CACHES)
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("normalize", self.normalize, NORMALIZATIONS)
        _check_integer("batch_size", self.batch_size, 1)
        _check_integer("seed", self.seed, 0, (1 << 63) - 1)
        if self.epochs is not None:
            _check_integer("epochs", self.epochs, 1)
        if self.image_size is not None:
            _check_integer("image_size", self.image_size, 1)
        elif self.augment != "none":
            raise UsageError(
                f"augment={self.augment!r} needs an image_size, got None in reader.load. "
                'Give one, such as image_size=224, or pass augment="none".'
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
