"""The options that every preprocessing job has."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any, ClassVar, Self

from beam_jobs.options.papers import license_url, read_papers
from beam_jobs.options.values import (
    DEFAULT_SPLIT,
    FILE,
    FOLDER,
    NAMES,
    NOTHING,
    SETS,
    SIZE,
    SPLIT_BY_PATTERN,
    check_id_prefix,
    check_not_empty,
    check_path,
    check_split,
    parse_globs,
    parse_kept,
    parse_labels,
    parse_names,
    parse_splits,
    parse_top,
    pattern_groups,
    splits_are_given,
)
from foundation import storage
from foundation.options import Limits, check_declared, declared, flag_of, option
from foundation.wording import parse_size
from shard_format import Feature, UsageError
from shard_format.naming import check_name
from shard_format.papers import joined_papers, papers_text, parse_papers

# An option that changes no record: paths, workers, and what becomes of a set as a whole.
run_option = functools.partial(option, identity=False)

_LABELLED = {"--no-labels": "needs a label per record"}


@dataclasses.dataclass(frozen=True)
class PreprocessOptions:
    """Options of a preprocessing job on any kind of records.

    Every option is documented by its `help`; docs/options.md lists them all.

    Attributes:
        sources: Where the corpus is: paths and globs; a single one may be given as it is.
        out: Directory of the new shard set.
        record_type: A name in `beam_jobs.record_types.RECORD_TYPES`.
        repaired: Folders with replacements of rejected files by record id, the latest first;
            `shardmill quarantine replay` sets them.
        notes: What a look at SRC settled that people may not expect.
        base: The set that a new generation is added to; --append sets it.
        base_generation: Its newest generation that records are compared with; None for all.
        only_items: A list of items, `fingerprints/items.arrow`, to read no others, in a repair.
        without_items: Lists of items not to read, in a replay.
        kept_out: Lists of records to keep out, `removed.txt` of the set that is built again.
        matched: Files of duplicates that name the records which are in other sets, in a repair.
        index_in_one: Whether the index of each split is one file, in a repair of a set that was
            built before there were parts.
        duplicates_in_one: Whether the duplicates are one file, in such a repair.
        papers: The papers of the set as JSON, see `shard_format.papers`: what --license, --citation
            and --card give, once their files are read.
        kept_in_index: Whether the index has the columns of --keep-columns. Not in a repair of a set
            that was built before indexes had them, nor in what is appended to such a set.
        replays: How often `shardmill quarantine replay` has asked servers again, of lists of URLs.
    """

    # The job of `shardmill preprocess`, and its help.
    COMMAND: ClassVar[str]
    ABOUT: ClassVar[str]

    sources: tuple[str, ...]
    out: str
    record_type: str = ""
    repaired: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    base: str = ""
    base_generation: int | None = None
    only_items: str = ""
    without_items: tuple[str, ...] = ()
    kept_out: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    index_in_one: bool = False
    duplicates_in_one: bool = False
    kept_in_index: bool = True
    papers: str = ""
    replays: int = 0
    name: str = run_option(
        "set",
        "First part of every shard's file name.",
        "NAME",
        check=lambda flag, value: check_name(value, flag),
    )
    source: str = option("auto", "How to read SRC; auto detects it from the files.")
    include: str | None = option(
        None,
        "Read only files that match this glob: '*.jpg' by their name, 'raw/*' by their path below "
        "SRC ('*' matches '/' too). Repeat it for several, or separate them by commas.",
        "GLOB",
        check=parse_globs,
        repeatable=True,
        absent_as=None,
    )
    exclude: str | None = option(
        None,
        "Do not read files that match this glob, also if --include does.",
        "GLOB",
        check=parse_globs,
        repeatable=True,
        absent_as=None,
    )
    labels: str | None = run_option(
        None,
        "A CSV, TSV, JSONL or Parquet table with a path and a label column; paths are relative to "
        "SRC.",
        form=FILE,
    )
    path_column: str = option("path", "Column of --labels with the path.", "NAME", reading=6)
    label_column: str | None = option(
        None,
        "Column or field with the label. A,B,... makes a label feature of each column; the first "
        "is the main label, which --stratify, --balance and --conflicts go by.",
        "NAME[,B...]",
        check=lambda flag, value: parse_labels(value),
        reading=1,
    )
    label_pattern: str | None = option(
        None,
        "A regular expression (RE2) with a named group label, split or group, searched in each "
        "file name; in the path below SRC if it contains '/'.",
        "REGEX",
        check=lambda flag, value: pattern_groups(value),
        excludes={"--labels": "takes labels from names"},
        absent_as=None,
        reading=2,
    )
    multi_label: bool = option(
        False,
        "A record has any number of labels: a list, or names separated by '|'.",
        type=bool,
        excludes={"--no-labels": "needs labels"},
        reading=3,
    )
    no_labels: bool = option(
        False, "Records have no label; every record found is read.", type=bool, reading=4
    )
    # "near" is a choice of the record types that find near duplicates.
    dedup: str = option("exact", "Which duplicates to find.", choices=("exact", "off"))
    near_threshold: float = option(
        0.9,  # measured at dedup.images.near_duplicates.DEFAULT_THRESHOLD
        "With --dedup near: the least similarity of two duplicates, 0.5 to 1.",
        "X",
        type=float,
        limits=Limits(0.5, 1),
    )
    duplicates: str = option(
        "drop",
        "What to do with duplicates: drop all but one of each cluster, or keep all of them in one "
        "split.",
        choices=("drop", "keep"),
        excludes={"--dedup off": "needs duplicates to be searched for"},
    )
    conflicts: str = option(
        "keep",
        "Keep one of the duplicates even if their labels conflict, or drop the whole cluster.",
        choices=("keep", "drop"),
    )
    where: str | None = option(
        None,
        'Keep the records that fit a condition on their columns alone, such as "words > 20 and '
        "language == 'en'\". It is applied before duplicates are resolved.",
        "CONDITION",
        check=check_not_empty,
        absent_as=None,
    )
    keep_best: str | None = option(
        None,
        "Of duplicates keep the record with the highest value of this column of numbers.",
        "COLUMN",
        excludes={
            "--dedup off": "needs duplicates to be searched for",
            "--duplicates keep": "keeps one of each cluster",
        },
        absent_as=None,
    )
    top: str | None = option(
        None,
        "Of the records that are left without duplicates, keep those with the highest values of "
        "--by: a percentage of those that have a value, rounded up, or a number.",
        "N|P%",
        check=lambda flag, value: parse_top(value),
        absent_as=None,
    )
    by: str | None = option(None, "With --top: the column of numbers.", "COLUMN", absent_as=None)
    top_per: str | None = option(
        None,
        "With --top: apply it to the records of each class.",
        choices=("label",),
        excludes={**_LABELLED, "--multi-label": "needs one label per record"},
        absent_as=None,
    )
    sample_weight: str | None = option(
        None,
        "Store the value of an arithmetic expression on columns as the feature sample_weight, "
        "float32 and at least 0; 0 where a column has no value.",
        "EXPRESSION",
        check=check_not_empty,
        absent_as=None,
    )
    split: str | None = option(
        None,
        "Splits and their fractions, which must sum to 1; or 'folders' (SRC/train, SRC/val, "
        "SRC/test), or 'column:NAME'.",
        "NAME=F,...",
        check=check_split,
        shown=f"{DEFAULT_SPLIT}; folders, if SRC has them",
    )
    stratify: bool = option(
        False,
        "Give every split its fraction of every class, exact to the record; a record with several "
        "labels counts for its rarest class.",
        type=bool,
        excludes=_LABELLED,
    )
    group_by: str | None = option(
        None,
        "Keep records with the same value of this column or field in one split.",
        "COLUMN",
        reading=5,
    )
    balance: str = option(
        "none",
        "Balance the classes of the training split: repeat records of small classes, or drop "
        "records of large ones; a record with several labels counts for its rarest class.",
        choices=("none", "oversample", "undersample"),
        excludes=_LABELLED,
    )
    num_shards: int | None = option(
        None,
        "Number of shards of every split.",
        "N",
        type=int,
        limits=Limits(1, 10**7),
        shown="by --shard-size",
    )
    shard_size: str = option("128MiB", "Target size of a shard.", form=SIZE)
    keep_columns: str | None = option(
        None,
        "Further columns to keep as features of the record, and in the index: NAME is text, and "
        "NAME:KIND a number (int64, float32, bool, ...), an image, bytes, or with sizes in "
        "brackets a list or a tensor, as in boxes:float32[*,4].",
        "A,B,...",
        check=lambda flag, value: parse_kept(value),
        reading=7,
    )
    id_column: str | None = option(
        None,
        "Column or field with the id of a record, which no other record may have. Without it the "
        "id is the place of the record in SRC.",
        "NAME",
        absent_as=None,
    )
    license_column: str | None = option(
        None, "Column or field with the license of a record.", "NAME", absent_as=None
    )
    require_license: str | None = option(
        None,
        "Keep the records with one of these licenses alone; 'CC-BY-4.0', 'cc by 4.0' and the URL "
        "of its text are the same.",
        form=NAMES,
        absent_as=None,
    )
    seed: int = option(
        0,
        "Seed of the global shuffle; it never changes which split a record is in.",
        "N",
        type=int,
        limits=Limits(0, (1 << 63) - 1),
    )
    append: bool = run_option(
        False,
        "Add SRC to the set in --out as a new generation. Options that are left out are those of "
        "the set, and others must be equal.",
        type=bool,
        excludes={
            "--balance undersample": "keeps old records as they are",
            "--overwrite": "keeps the set that is there",
        },
    )
    new_classes: str = run_option(
        "add",
        "With --append: what to do with classes that the set does not have. add gives them the "
        "next numbers.",
        choices=("add", "refuse"),
    )
    id_prefix: str | None = option(
        None,
        "Begin all record ids with NAME/, where names of files repeat those of earlier sources.",
        "NAME",
        check=check_id_prefix,
        absent_as=None,
    )
    exclude_ids: str | None = run_option(
        None,
        "Keep the records with these ids out of the set, and of all that is appended to it or "
        "built in its place: a text file with a record id per line, or JSON Lines.",
        form=FILE,
    )
    against: str | None = run_option(
        None,
        "Leave out what is in another set or corpus, such as an evaluation set: exact copies, and "
        "with --dedup near also near ones. A set is compared by what it has stored; a folder or "
        "file is staged first. Repeat it for several; with --append 'none' compares with nothing, "
        "also where the set was compared before.",
        form=SETS,
        repeatable=True,
    )
    against_action: str = run_option(
        "drop",
        "With --against: leave such records out, or keep them and report them alone.",
        choices=("drop", "report"),
    )
    no_fingerprints: bool = run_option(
        False,
        "Do not store what near duplicates and groups of later generations are found by; the set "
        "cannot be appended to then.",
        type=bool,
    )
    license: str | None = run_option(
        None,
        "License of the set: an SPDX identifier such as CC-BY-4.0, or a URL.",
        "ID",
        check=license_url,
    )
    citation: str | None = run_option(
        None, "How to cite the set: a file, or the text itself, best as BibTeX.", "FILE-OR-TEXT"
    )
    card: str | None = run_option(
        None,
        "A file that describes the set: YAML, JSON, or Markdown with YAML before it. README.md and "
        "croissant.json have its fields.",
        form=FILE,
    )
    no_report: bool = run_option(False, "Do not write report.html and README.md.", type=bool)
    keep_empty: bool = run_option(
        False,
        "Keep a set of which every record was rejected, with its quarantine; without it such a "
        "build leaves nothing.",
        type=bool,
    )
    overwrite: bool = run_option(
        False,
        "Replace another set in OUT, once the new one is whole; without it such a set is refused.",
        type=bool,
    )
    workers: int | None = run_option(
        None,
        "Parallel workers of the local engine.",
        "N",
        type=int,
        limits=Limits(1, 10**5),
        shown="one per core",
    )
    worker_type: str = run_option(
        "auto",
        "What a worker of the local engine is. Threads start at once and take less memory; "
        "processes do not wait for each other, and auto takes them for larger corpora.",
        choices=("auto", "threads", "processes"),
    )
    on_bad: str = run_option(
        "quarantine",
        "What to do with a record that cannot be used: quarantine it with its reason, or fail.",
        choices=("quarantine", "fail"),
    )
    on_unreadable: str = run_option(
        "stop",
        "What to do when a file cannot be read because of an I/O error: stop after retries, so "
        "that the same command resumes; or quarantine it, and read it again in the next run.",
        choices=("stop", "quarantine"),
    )
    follow_links: bool = option(
        False,
        "Follow symbolic links that lead outside of SRC.",
        type=bool,
        absent_as=False,
        reading=8,
    )
    max_record_bytes: str = option(
        "512MiB",
        "Reject larger records, before and while they are decompressed.",
        form=SIZE,
        absent_as="512MiB",
        reading=9,
    )
    staging: str | None = run_option(
        None,
        "Keep staged units in this directory, for later builds.",
        form=FOLDER,
        shown="inside OUT, removed at the end",
    )
    unit_size: str | None = run_option(
        None,
        "Input bytes per work unit.",
        form=SIZE,
        shown="2 to 32 MiB, by the size of the corpus",
    )

    def __post_init__(self) -> None:
        self._accept_paths()
        if not self.sources:
            raise UsageError("No source given. Name a folder or file to read.")
        for source in self.sources:
            check_path("The source", source)
        check_path("--out", self.out)
        if self.out.startswith(storage.READ_ONLY):
            storage.refuse_to_write(self.out, "--out ")
        if self.staging and self.staging.startswith(storage.READ_ONLY):
            storage.refuse_to_write(self.staging, "--staging ")
        check_declared(self, name_of=flag_of)
        if self.split is None and "split" in pattern_groups(self.label_pattern):
            object.__setattr__(self, "split", SPLIT_BY_PATTERN)
        self._check_combinations()

    def _accept_paths(self) -> None:
        """Makes text of every pathlib.Path, for options are pickled and stored as JSON."""
        sources: Any = self.sources
        if isinstance(sources, str | os.PathLike):
            sources = (sources,)
        object.__setattr__(self, "sources", tuple(os.fspath(source) for source in sources))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, os.PathLike):
                object.__setattr__(self, field.name, os.fspath(value))

    def _check_combinations(self) -> None:
        """Checks what `excludes` cannot express, because it depends on the form of a value."""
        if self.stratify and splits_are_given(self.split):
            self._refuse_pair("--stratify", f"--split {self.split}", "needs fractions to meet")
        several = f"--label-column {self.label_column}"
        if self.multi_label and self.further_labels:
            self._refuse_pair("--multi-label", several, "needs one label column")
        if (self.license_column is None) != (self.require_license is None):
            raise UsageError(
                "--license-column names the column, and --require-license the licenses to keep. "
                "Give both of them, or --keep-columns to keep the license of every record."
            )
        if (self.top is None) != (self.by is None) or (self.top_per and self.top is None):
            raise UsageError(
                "--top says how many records to keep, and --by the column that ranks them. Give "
                "both of them, such as --top 10% --by score."
            )
        for name in self.further_labels:
            if name in {feature.name for feature in parse_kept(self.keep_columns)}:
                self._refuse_pair("--keep-columns", several, f"names {name!r} too")
        self._check_pattern()

    def _check_pattern(self) -> None:
        """Checks that --label-pattern and other options do not give the same thing."""
        groups = pattern_groups(self.label_pattern)
        for group, flag, is_given in (
            ("label", "--label-column", self.label_column not in (None, "label")),
            ("group", "--group-by", self.group_by is not None),
            ("split", f"--split {self.split}", self.split != SPLIT_BY_PATTERN),
        ):
            if group in groups and is_given:
                what = f"The group {group!r} of --label-pattern"
                self._refuse_pair(what, flag, f"gives the {group}")
        if self.split == SPLIT_BY_PATTERN and "split" not in groups:
            raise UsageError(
                "--split pattern has no --label-pattern with a group (?P<split>...). Add one, or "
                "give fractions."
            )

    @staticmethod
    def _refuse_pair(one: str, other: str, why: str) -> None:
        raise UsageError(f"{one} {why} and cannot be combined with {other}. Leave one of them out.")

    @property
    def table(self) -> str | None:
        """What describes the files of SRC one by one; None without it."""
        return self.labels

    @property
    def consumed_columns(self) -> dict[str, Feature]:
        """Columns that are read and become no features as they are, by their use."""
        named = {"id": self.id_column, "license": self.license_column}
        kept = {feature.name for feature in parse_kept(self.keep_columns)}
        return {
            use: Feature(name, "text")
            for use, name in named.items()
            if name is not None and name not in kept
        }

    @property
    def others(self) -> tuple[str, ...]:
        """The sets and corpora of --against."""
        given = parse_names("--against", self.against) if self.against else ()
        return tuple(name for name in given if name != NOTHING)

    @property
    def has_groups(self) -> bool:
        """Whether records may have a group."""
        return self.group_by is not None or "group" in pattern_groups(self.label_pattern)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of --label-column, that of the main label first; none without it."""
        return () if self.label_column is None else parse_labels(self.label_column)

    @property
    def main_label(self) -> str | None:
        """The column of the main label."""
        return next(iter(self.label_columns), None)

    @property
    def further_labels(self) -> tuple[str, ...]:
        """The columns of all other labels, which are also the names of their features."""
        return () if self.no_labels else self.label_columns[1:]

    @classmethod
    def without_effect(cls) -> frozenset[str]:
        """Names of the fields that do not change the records; `config` leaves them out."""
        changing = {field.name for field in declared(cls) if field.metadata["identity"]}
        names = {field.name for field in dataclasses.fields(cls)}
        return frozenset(names - changing - {"record_type"})

    @classmethod
    def absent(cls) -> dict[str, Any]:
        """The values of options that a set was built with whose config does not name them."""
        values = {field.name: field.metadata["absent_as"] for field in declared(cls)}
        return {name: value for name, value in values.items() if value is not dataclasses.MISSING}

    def with_papers_read(self) -> Self:
        """The options with the papers themselves in place of what names them.

        Raises:
            UsageError: A file cannot be read, or is malformed.
        """
        if (self.license, self.citation, self.card) == (None, None, None):
            return self
        given = read_papers(self.license, self.citation, self.card)
        papers = papers_text(joined_papers(parse_papers(self.papers), given))
        return dataclasses.replace(self, papers=papers, license=None, citation=None, card=None)

    def reading(self) -> list[Any]:
        """The values of all options that decide how records are read."""
        fields = [field for field in declared(self) if field.metadata["reading"] is not None]
        fields.sort(key=lambda field: int(field.metadata["reading"]))
        return [self.source, *(getattr(self, field.name) for field in fields)]

    def config(self) -> dict[str, Any]:
        """The options that change the records of the set, as the manifest stores them."""
        without, absent = self.without_effect(), self.absent()
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in without
            and not (field.name in absent and getattr(self, field.name) == absent[field.name])
        }
        if self.id_column is not None:
            del values["source"]  # nothing of a record follows from where it was
        values["shard_size"] = parse_size("--shard-size", self.shard_size)
        if self.dedup != "near":
            # No near duplicates are searched for. As its default, so that sets keep their hashes.
            values["near_threshold"] = type(self).near_threshold
        if not splits_are_given(self.split):
            values["split"] = parse_splits(self.split)
        return values
