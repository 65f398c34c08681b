"""What every preprocessing job can be told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from beam_jobs.options.values import (
    check_path,
    check_range,
    parse_kept,
    parse_splits,
    split_column,
    splits_are_given,
)
from shard_format import UsageError
from shard_format.naming import check_name
from shard_format.wording import parse_size


def option(
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

    # Where things lie, who does the work, and what the set is called beside its config.
    WITHOUT_EFFECT: ClassVar[frozenset[str]] = frozenset(
        "sources out repaired name labels workers on_bad on_unreadable staging unit_size "
        "no_report".split()
    )

    # Left out of the config while they have their defaults: sets that were built before these
    # options existed keep their root hashes.
    ADDED: ClassVar[frozenset[str]] = frozenset(("follow_links", "max_record_bytes"))

    # What decides, beside where it lies, how a record is read.
    READING: ClassVar[tuple[str, ...]] = (
        *("label_column", "multi_label", "no_labels", "group_by"),
        *("path_column", "keep_columns", "follow_links", "max_record_bytes"),
    )

    sources: tuple[str, ...]
    out: str
    record_type: str = ""
    # Folders of mended originals by record id, the last one first; `shardmill quarantine replay`
    # sets them.
    repaired: tuple[str, ...] = ()
    name: str = option("set", "First part of every shard's file name.", "NAME")
    source: str = option("auto", "How to read SRC; auto looks at what lies there.")
    labels: str | None = option(
        None,
        "A CSV, TSV, JSONL or Parquet table with a path and a label column; paths are relative to "
        "SRC.",
        "FILE",
    )
    path_column: str = option("path", "Column of --labels with the path.", "NAME")
    label_column: str | None = option(None, "Column or field with the label.", "NAME")
    multi_label: bool = option(
        False, "A record has any number of labels: a list, or names joined by '|'.", type=bool
    )
    no_labels: bool = option(
        False, "Records have no label; every record found is taken.", type=bool
    )
    dedup: str = option("exact", "Which duplicates to find.", choices=("exact", "near", "off"))
    near_threshold: float = option(
        0.9, "With --dedup near: how alike two records must be.", "X", type=float
    )
    duplicates: str = option(
        "drop",
        "What to do with duplicates: keep one of each cluster, or all of them in one split.",
        choices=("drop", "keep"),
    )
    conflicts: str = option(
        "keep",
        "Of duplicates whose labels differ, keep as of others, or drop the whole cluster.",
        choices=("keep", "drop"),
    )
    split: str = option(
        "train=0.9,test=0.1",
        "Splits and their fractions, which must sum to 1; or 'folders' (SRC/train, SRC/val, "
        "SRC/test), or 'column:NAME'.",
        "NAME=F,...",
    )
    stratify: bool = option(
        False, "Give every split its fraction of every class, to the record.", type=bool
    )
    group_by: str | None = option(
        None,
        "Records with the same value of this column or field stay in one split.",
        "COLUMN",
    )
    balance: str = option(
        "none",
        "Make the classes of the training split equal: repeat records of small classes, or leave "
        "out records of large ones.",
        choices=("none", "oversample", "undersample"),
    )
    num_shards: int | None = option(
        None, "Shards of every split (default: by --shard-size).", "N", type=int
    )
    shard_size: str = option("128MiB", "Aimed size of a shard.", "SIZE")
    keep_columns: str | None = option(
        None, "Further columns that become features of the record.", "A,B,..."
    )
    seed: int = option(0, "Decides the global shuffle; never who is in which split.", "N", type=int)
    no_report: bool = option(False, "Do not write report.html.", type=bool)
    workers: int | None = option(
        None, "Parallel workers of the local engine (default: cores).", "N", type=int
    )
    on_bad: str = option(
        "quarantine",
        "What to do with a file that cannot be used: keep it aside with its reason, or stop.",
        choices=("quarantine", "fail"),
    )
    on_unreadable: str = option(
        "stop",
        "What to do when a file cannot be read because of an I/O error: stop after retries, so "
        "that the same command resumes; or quarantine it, and read it again in the next run.",
        choices=("stop", "quarantine"),
    )
    follow_links: bool = option(False, "Follow symbolic links that lead outside of SRC.", type=bool)
    max_record_bytes: str = option(
        "512MiB", "Reject larger records, before and while they are decompressed.", "SIZE"
    )
    staging: str | None = option(
        None, "Keep staged units here, for later builds (default: inside OUT, then removed).", "DIR"
    )
    unit_size: str | None = option(
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
        check_name(self.name, "--name")
        check_range("--seed", self.seed, 0, (1 << 63) - 1)
        check_range("--near-threshold", self.near_threshold, 0.5, 1)
        self._check_optional("num_shards", 1, 10**7)
        self._check_optional("workers", 1, 10**5)
        for field in dataclasses.fields(self):
            choices = field.metadata.get("choices")
            if choices and getattr(self, field.name) not in choices:
                raise UsageError(
                    f"--{field.name.replace('_', '-')} must be one of {', '.join(choices)}, "
                    f"got {getattr(self, field.name)!r}. Choose one of them."
                )
        if self.labels is not None:
            check_path("--labels", self.labels)
        parse_kept(self.keep_columns)
        # Parsed now, so that a mistake is found before anything is read.
        parse_size("--max-record-bytes", self.max_record_bytes)
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

    @staticmethod
    def _refuse_pair(one: str, other: str, why: str) -> None:
        raise UsageError(f"{one} {why}, got it with {other}. Leave one of them out.")

    def config(self) -> dict[str, Any]:
        """Every option that has an effect on the bytes, in the form the manifest keeps."""
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in self.WITHOUT_EFFECT
            and not (field.name in self.ADDED and getattr(self, field.name) == field.default)
        }
        values["shard_size"] = parse_size("--shard-size", self.shard_size)
        if not splits_are_given(self.split):
            values["split"] = parse_splits(self.split)
        return values
