"""Every option of a preprocessing job, in one place.

The command line and `python -m beam_jobs` both make their flags from these fields, so that an
option exists once, with one default and one help text.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from typing import Any

from shard_format import UsageError
from shard_format.naming import check_name

SPLIT_SUM_TOLERANCE = 1e-6  # fractions are typed by people, in decimal
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]i?B|B)?", re.IGNORECASE)
_SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def _option(
    default: Any,
    help: str,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    type: Callable[[str], Any] = str,
) -> Any:
    return dataclasses.field(
        default=default,
        metadata={"help": help, "metavar": metavar, "choices": choices, "type": type},
    )


@dataclasses.dataclass(frozen=True)
class PreprocessOptions:
    """What to build, where, and how.

    Attributes are documented by their `help`. Those that `config` leaves out have no effect on
    the bytes of the set.
    """

    sources: tuple[str, ...]
    out: str
    record_type: str = "image"
    name: str = _option("images", "First part of every shard's file name.", "NAME")
    source: str = _option("class-folders", "How to read SRC.", choices=("class-folders",))
    resize: str = _option(
        "shorter:256",
        "shorter:N scales the shorter side to N; fit:WxH scales into a box; crop:WxH covers the "
        "box and cuts the centre; pad:WxH fits and fills with black; none keeps the size.",
        "MODE",
    )
    quality: int = _option(90, "JPEG quality of the stored pictures, 1 to 100.", "Q", type=int)
    max_pixels: int = _option(
        # Pillow's own threshold, Image.MAX_IMAGE_PIXELS: a quarter of a GiB at 3 bytes per pixel.
        89_478_485,
        "Pictures that declare more pixels are refused before they are decoded.",
        "N",
        type=int,
    )
    dedup: str = _option(
        "exact",
        "exact leaves out records that are stored with equal bytes.",
        choices=("exact", "off"),
    )
    split: str = _option(
        "train=0.9,test=0.1", "Splits and their fractions; they must sum to 1.", "NAME=F,..."
    )
    num_shards: int | None = _option(
        None, "Shards of every split (default: by --shard-size).", "N", type=int
    )
    shard_size: str = _option("128MiB", "Aimed size of a shard.", "SIZE")
    seed: int = _option(
        0, "Decides the global shuffle; never who is in which split.", "N", type=int
    )
    workers: int | None = _option(
        None, "Parallel workers of the local engine (default: cores).", "N", type=int
    )
    on_bad: str = _option(
        "quarantine",
        "What to do with a file that cannot be used: keep it aside with its reason, or stop.",
        choices=("quarantine", "fail"),
    )
    staging: str | None = _option(
        None, "Keep staged units here, for later builds (default: inside OUT, then removed).", "DIR"
    )
    unit_size: str | None = _option(
        None, "Input per work unit (default: 2 to 32 MiB by corpus size).", "SIZE"
    )

    def __post_init__(self) -> None:
        if not self.sources:
            raise UsageError("a job must have a source, got none. Name a folder to read.")
        for source in self.sources:
            _check_path("a source", source)
        _check_path("--out", self.out)
        if self.staging is not None:
            _check_path("--staging", self.staging)
        check_name(self.name, "--name")
        _check_range("--quality", self.quality, 1, 100)
        _check_range("--seed", self.seed, 0, (1 << 63) - 1)
        # Pillow itself refuses more than twice its threshold.
        _check_range("--max-pixels", self.max_pixels, 1, 178_956_970)
        if self.num_shards is not None:
            _check_range("--num-shards", self.num_shards, 1, 10**7)
        if self.workers is not None:
            _check_range("--workers", self.workers, 1, 10**5)
        for field in dataclasses.fields(self):
            choices = field.metadata.get("choices")
            if choices and getattr(self, field.name) not in choices:
                raise UsageError(
                    f"--{field.name.replace('_', '-')} must be one of {', '.join(choices)}, "
                    f"got {getattr(self, field.name)!r}. Choose one of them."
                )
        # Parsed now, so that a mistake is found before anything is read.
        parse_size("--shard-size", self.shard_size)
        if self.unit_size is not None:
            parse_size("--unit-size", self.unit_size)
        parse_splits(self.split)

    def config(self) -> dict[str, Any]:
        """Every option that has an effect on the bytes, in the form the manifest keeps."""
        return {
            "record_type": self.record_type,
            "source": self.source,
            "resize": self.resize,
            "quality": self.quality,
            "max_pixels": self.max_pixels,
            "dedup": self.dedup,
            "split": parse_splits(self.split),
            "num_shards": self.num_shards,
            "shard_size": parse_size("--shard-size", self.shard_size),
            "seed": self.seed,
        }


def parse_size(flag: str, text: str) -> int:
    """Bytes of a size such as "128MiB", "1.5 GB" or "4096".

    Raises:
        UsageError: The text is no size, or zero.
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _SIZE_UNITS[(match[2] or "B").lower()]) if match else 0
    if size < 1:
        raise UsageError(
            f"{flag} must be a number with a unit B, KiB, MiB, GiB or TiB, got {text!r}. "
            "Write for instance 128MiB."
        )
    return size


def parse_splits(text: str) -> dict[str, float]:
    """Fractions by split name, in the order given: "train=0.9,test=0.1".

    Raises:
        UsageError: A part is malformed or repeated, or the fractions do not sum to 1.
    """
    splits: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        try:
            fraction = float(number)
        except ValueError:
            fraction = -1.0
        if not equals or not 0 < fraction <= 1:
            raise UsageError(
                f"--split must be NAME=FRACTION parts with fractions in (0, 1], got {part!r}. "
                "Write for instance train=0.9,test=0.1."
            )
        if check_name(name, "a split name") in splits:
            raise UsageError(f"--split must name a split once, got {name!r} twice. Remove one.")
        splits[name] = fraction
    total = sum(splits.values())
    if abs(total - 1) > SPLIT_SUM_TOLERANCE:
        raise UsageError(
            f"--split fractions must sum to 1, got {total:g} ({text}). "
            f"{'Add the missing' if total < 1 else 'Take away'} {abs(1 - total):g}."
        )
    return splits


def _check_range(flag: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"{flag} must be in [{low}, {high}], got {value}. Choose a value in it.")


def _check_path(flag: str, path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{flag} must be a path in UTF-8, got {os.fsencode(path)!r}. Rename that folder."
        ) from None
    if not path:
        raise UsageError(f"{flag} must be a path, got an empty one. Write '.' for this folder.")
    if "://" in path:
        raise UsageError(
            f"{flag} must lie on a file system that every worker has mounted, got {path!r}. "
            "Mount the bucket (gcsfuse, s3fs, NFS) and name the mount point."
        )
