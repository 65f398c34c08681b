"""Every option of a preprocessing job, in one place.

The command line and `python -m beam_jobs` both make their flags from these fields, so that an
option exists once, with one default and one help text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from beam_jobs.option_values import (
    check_path,
    check_range,
    parse_quality,
    parse_size,
    parse_splits,
    split_column,
    splits_are_given,
)
from shard_format import UsageError
from shard_format.naming import check_name

SOURCE_NAMES = (
    "auto",
    "class-folders",
    "table",
    "tar",
    "zip",
    "parquet",
    "arrow",
    "tfrecord",
    "idx",
)


def _option(
    default: Any,
    help: str,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    type: Callable[[str], Any] = str,
) -> Any:
    """A field with a flag of its own; one of `type=bool` takes no value."""
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
    # Folders of mended originals by record id, the last one first; `shardmill quarantine replay`
    # sets them.
    repaired: tuple[str, ...] = ()
    name: str = _option("images", "First part of every shard's file name.", "NAME")
    source: str = _option(
        "auto", "How to read SRC; auto looks at what lies there.", choices=SOURCE_NAMES
    )
    labels: str | None = _option(
        None,
        "A CSV, TSV, JSONL or Parquet table with a path and a label column; paths are relative to "
        "SRC.",
        "FILE",
    )
    path_column: str = _option("path", "Column of --labels with the path.", "NAME")
    image_column: str = _option(
        "image", "Column or feature with the picture (Parquet, Arrow, TFRecord).", "NAME"
    )
    label_column: str = _option(
        "label", "Column, feature or WebDataset JSON field with the label.", "NAME"
    )
    multi_label: bool = _option(
        False, "A record has any number of labels: a list, or names joined by '|'.", type=bool
    )
    no_labels: bool = _option(
        False, "Records have no label; every picture found is taken.", type=bool
    )
    resize: str = _option(
        "shorter:256",
        "shorter:N scales the shorter side to N; fit:WxH scales into a box; crop:WxH covers the "
        "box and cuts the centre; pad:WxH fits and fills with black; none keeps the size.",
        "MODE",
    )
    encoding: str = _option(
        "jpeg", "How pictures are stored.", choices=("jpeg", "png", "webp", "raw")
    )
    quality: str = _option(
        "90",
        "JPEG or WebP quality of the stored pictures, 1 to 100; keep stores the original bytes of "
        "a JPEG that needs no change (any other gets 90; keep:N says which).",
        "Q",
    )
    max_pixels: int = _option(
        # Pillow's own threshold, Image.MAX_IMAGE_PIXELS: a quarter of a GiB at 3 bytes per pixel.
        89_478_485,
        "Pictures that declare more pixels are refused before they are decoded.",
        "N",
        type=int,
    )
    lenient: bool = _option(
        False, "Keep damaged pictures of which a part can be decoded.", type=bool
    )
    background: str = _option(
        "white", "What lies behind transparent pixels: white or #rrggbb.", "COLOUR"
    )
    animated: str = _option(
        "first",
        "Of an animated picture take the first frame, or refuse it.",
        "MODE",
        choices=("first", "refuse"),
    )
    min_side: int | None = _option(
        None, "Filter out pictures with a side shorter than N pixels.", "N", type=int
    )
    max_aspect: float | None = _option(
        None, "Filter out pictures whose longer side is over X times the shorter.", "X", type=float
    )
    blank: float | None = _option(
        None,
        "Filter out pictures whose brightness has a standard deviation under X grey levels of 255 "
        "(2 finds blank pages).",
        "X",
        type=float,
    )
    time_limit: float = _option(
        60.0, "Refuse a picture that takes longer to decode.", "SECONDS", type=float
    )
    dedup: str = _option(
        "exact",
        "exact finds pictures with equal pixels; near also those that were resized, recompressed "
        "or slightly cropped.",
        choices=("exact", "near", "off"),
    )
    near_threshold: float = _option(
        0.9,  # near.clusters.DEFAULT_THRESHOLD, which says where it comes from
        "With --dedup near: how alike two pictures must be, 0.5 to 1.",
        "X",
        type=float,
    )
    duplicates: str = _option(
        "drop",
        "What to do with duplicates: keep one of each cluster, or all of them in one split.",
        choices=("drop", "keep"),
    )
    conflicts: str = _option(
        "keep",
        "Of duplicates whose labels differ, keep as of others, or drop the whole cluster.",
        choices=("keep", "drop"),
    )
    split: str = _option(
        "train=0.9,test=0.1",
        "Splits and their fractions, which must sum to 1; or 'folders' (SRC/train, SRC/val, "
        "SRC/test), or 'column:NAME'.",
        "NAME=F,...",
    )
    stratify: bool = _option(
        False, "Give every split its fraction of every class, to the record.", type=bool
    )
    group_by: str | None = _option(
        None,
        "Records with the same value of this column or field stay in one split.",
        "COLUMN",
    )
    balance: str = _option(
        "none",
        "Make the classes of the training split equal: repeat records of small classes, or leave "
        "out records of large ones.",
        choices=("none", "oversample", "undersample"),
    )
    num_shards: int | None = _option(
        None, "Shards of every split (default: by --shard-size).", "N", type=int
    )
    shard_size: str = _option("128MiB", "Aimed size of a shard.", "SIZE")
    seed: int = _option(
        0, "Decides the global shuffle; never who is in which split.", "N", type=int
    )
    no_report: bool = _option(False, "Do not write report.html.", type=bool)
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
            check_path("a source", source)
        check_path("--out", self.out)
        if self.staging is not None:
            check_path("--staging", self.staging)
        if self.labels is not None:
            check_path("--labels", self.labels)
        check_name(self.name, "--name")
        check_range("--seed", self.seed, 0, (1 << 63) - 1)
        # Pillow itself refuses more than twice its threshold.
        check_range("--max-pixels", self.max_pixels, 1, 178_956_970)
        check_range("--near-threshold", self.near_threshold, 0.5, 1)
        check_range("--time-limit", self.time_limit, 0.1, 1e6)
        self._check_optional("num_shards", 1, 10**7)
        self._check_optional("workers", 1, 10**5)
        self._check_optional("min_side", 1, 10**6)
        self._check_optional("max_aspect", 1, 10**6)
        self._check_optional("blank", 0, 128)
        for field in dataclasses.fields(self):
            choices = field.metadata.get("choices")
            if choices and getattr(self, field.name) not in choices:
                raise UsageError(
                    f"--{field.name.replace('_', '-')} must be one of {', '.join(choices)}, "
                    f"got {getattr(self, field.name)!r}. Choose one of them."
                )
        # Parsed now, so that a mistake is found before anything is read.
        parse_quality(self.quality)
        parse_size("--shard-size", self.shard_size)
        if self.unit_size is not None:
            parse_size("--unit-size", self.unit_size)
        if not splits_are_given(self.split):
            parse_splits(self.split)
        split_column(self.split)
        self._check_combinations()

    def _check_optional(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if value is not None:
            check_range(f"--{name.replace('_', '-')}", value, low, high)

    def _check_combinations(self) -> None:
        unlabelled = (
            "--no-labels" if self.no_labels else "--multi-label" if self.multi_label else ""
        )
        if unlabelled and self.balance != "none":
            self._refuse_pair(f"--balance {self.balance}", unlabelled, "needs one label a record")
        if unlabelled and self.stratify:
            self._refuse_pair("--stratify", unlabelled, "needs one label a record")
        if self.no_labels and self.multi_label:
            self._refuse_pair("--multi-label", "--no-labels", "needs labels")
        if self.stratify and splits_are_given(self.split):
            self._refuse_pair("--stratify", f"--split {self.split}", "needs fractions to meet")
        if self.duplicates == "keep" and self.dedup == "off":
            self._refuse_pair(
                "--duplicates keep", "--dedup off", "needs duplicates to be looked for"
            )
        if parse_quality(self.quality)[0] and self.encoding != "jpeg":
            self._refuse_pair("--quality keep", f"--encoding {self.encoding}", "needs jpeg")
        if self.labels is not None and self.source not in ("auto", "table"):
            self._refuse_pair("--labels", f"--source {self.source}", "needs a folder of pictures")
        if self.source == "table" and self.labels is None:
            raise UsageError(
                "--source table must come with --labels FILE, got none. Name the table."
            )

    @staticmethod
    def _refuse_pair(one: str, other: str, why: str) -> None:
        raise UsageError(f"{one} {why}, got it with {other}. Leave one of them out.")

    def config(self) -> dict[str, Any]:
        """Every option that has an effect on the bytes, in the form the manifest keeps."""
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in _WITHOUT_EFFECT
        }
        keeps, quality = parse_quality(self.quality)
        values["quality"] = f"keep:{quality}" if keeps else quality
        values["shard_size"] = parse_size("--shard-size", self.shard_size)
        if not splits_are_given(self.split):
            values["split"] = parse_splits(self.split)
        return values


# Where things lie, who does the work, and what the set is called beside its config.
_WITHOUT_EFFECT = frozenset(
    "sources out repaired name labels workers on_bad staging unit_size no_report".split()
)
