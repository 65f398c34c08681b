"""What a corpus says about a record: label, group and split, from folders, columns and fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beam_jobs.corpus.kept_values import kept_value
from beam_jobs.corpus.names import (
    SPLIT_NAMES,
    prefixes,
    split_in_file_name,
    split_name,
    without_split,
)
from beam_jobs.corpus.record import (
    Annotations,
    Rejection,
    SourceItem,
    checked_label,
    join_labels,
)
from beam_jobs.corpus.record_extractor import RecordExtractor
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import (
    SPLIT_BY_FOLDER,
    parse_kept,
    pattern_groups,
    split_column,
    splits_are_given,
)
from foundation import storage
from shard_format import Feature

DEFAULT_LABEL = "label"  # the column of a table, unless --label-column names one
_NAME_SEPARATOR = "|"
ANNOTATIONS = Feature("annotations", "text")
NO_CLASS_NAMES: Mapping[str, Sequence[str]] = {}
# The flag that names a column, by its use.
COLUMN_FLAGS = {
    "path": "--path-column",
    "label": "--label-column",
    "group": "--group-by",
    "split": "--split column:",
    "keep": "--keep-columns",
    "caption": "--caption-column",
    "mask": "--mask-column",
    "id": "--id-column",
    "license": "--license-column",
}


def use_of_kept(feature: Feature, options: PreprocessOptions) -> str:
    """The key of COLUMN_FLAGS for a kept column."""
    consumed = options.consumed_columns.items()
    own = "label" if feature.kind == "class_label" else "keep"
    return next((use for use, one in consumed if one == feature), own)


def flag_of_kept(feature: Feature, options: PreprocessOptions) -> str:
    """The flag that names a kept column."""
    return COLUMN_FLAGS[use_of_kept(feature, options)]


def wanted_columns(options: PreprocessOptions) -> dict[str, str]:
    """The columns that the options ask for, by their use: "label", "group", "split"."""
    by_name = options.no_labels or "label" in pattern_groups(options.label_pattern)
    wanted = {
        "label": None if by_name else options.main_label,
        "group": options.group_by,
        "split": split_column(options.split),
    }
    return {use: column for use, column in wanted.items() if column is not None}


def kept_columns(options: PreprocessOptions) -> tuple[Feature, ...]:
    """The features of the columns that are kept: of --keep-columns, captions, masks, labels, ids.

    Of a job with annotations, the last one are these, as JSON. Those of
    `PreprocessOptions.consumed_columns` and `RecordType.consumed` become no features as they are.
    """
    labels = (Feature(name, "class_label") for name in options.further_labels)
    objects = (ANNOTATIONS,) if options.table is not None and options.labels is None else ()
    return (
        *parse_kept(options.keep_columns),
        *options.consumed_columns.values(),
        *labels,
        *objects,
    )


class FolderLabels:
    """Label and split of files by the folders that they are in.

    Args:
        options: The job.
        extractor: Says whether folders label its records, and files name their split.
    """

    def __init__(self, options: PreprocessOptions, extractor: RecordExtractor) -> None:
        self._by_split = options.split == SPLIT_BY_FOLDER
        by_name = "label" in pattern_groups(options.label_pattern)
        self._labelled = not options.no_labels and not by_name
        self._needs_folder = (
            extractor.needs_class_folders and self._labelled and options.table is None
        )
        self._in_file_names = extractor.in_file_names
        self._source_splits = _source_splits(options) if self._by_split else {}

    def archive_split(self, file_id: str) -> str | None:
        """The split of all members of an archive, if its folders or its name have one."""
        if not self._by_split:
            return None
        *folders, name = file_id.split("/")
        by_name = without_split(tuple(folders))[0] or split_in_file_name(name)
        return by_name or self._source_split(file_id)

    def placed(
        self, item: SourceItem, folders: tuple[str, ...], split: str | None = None
    ) -> SourceItem:
        """The item with label and split.

        Args:
            item: A file or a member.
            folders: Around it, below the root or in the archive.
            split: Split of the archive that it is in.
        """
        if self._by_split and split is None:
            split, folders = without_split(folders)
            if split is None and self._in_file_names:
                split = split_in_file_name(item.record_id.rpartition("/")[2])
            split = split or self._source_split(item.record_id)
        label = folders[0] if folders and self._labelled else None
        if (label, split) != (item.label, item.split):
            item = item._replace(label=label, split=split)
        if item.reason:
            return item
        if self._by_split and split is None:
            return item.rejected(no_split_folder())
        if label is None and self._needs_folder:
            return item.rejected(Rejection("no-class-folder", "the file is not in a class folder"))
        try:
            checked_label(label or "")  # a folder is one class, also with --multi-label
        except Rejection as rejection:
            return item.rejected(rejection)
        return item

    def _source_split(self, record_id: str) -> str | None:
        """The split that the name of its source is: of `photos/train photos/test`."""
        splits = (
            split for prefix, split in self._source_splits.items() if record_id.startswith(prefix)
        )
        return next(splits, None)


def _source_splits(options: PreprocessOptions) -> dict[str, str]:
    """The split of every source whose last name is one, by the prefix of its record ids."""
    roots = prefixes([storage.place_of(path) for path in options.sources])
    named = {prefix: split_name(prefix.rstrip("/").rpartition("/")[2]) for prefix, _ in roots}
    return {prefix: split for prefix, split in named.items() if split is not None}


def no_split_folder() -> Rejection:
    """Why a file without split is rejected, with --split folders."""
    return Rejection(
        "no-split-folder",
        f"--split folders finds none of {', '.join(SPLIT_NAMES)} in its path",
    )


def check_annotated(annotations: Annotations, options: PreprocessOptions) -> None:
    """Checks that a record has the label and the split that the job needs.

    Raises:
        Rejection: One of them is missing, or the label is no name of a class.
    """
    if annotations.label is not None and not options.multi_label:
        checked_label(annotations.label)
    if annotations.label is None and not options.no_labels:
        column = options.main_label
        raise Rejection("no-label", f"it has no {column!r}" if column else "nothing says its label")
    if annotations.split is None and splits_are_given(options.split):
        raise Rejection(
            "no-split", f"--split {options.split} finds none of {', '.join(SPLIT_NAMES)} for it"
        )


class AnnotationReader:
    """Takes label, group, split and kept columns from the fields of a record.

    Args:
        options: The job.
        in_table: Whether the fields are those of a row of --labels. With that table no record
            says anything about itself.

    Attributes:
        options: The job.
        wanted: The columns that are read, by their use: "label", "group", "split".
        kept: See `kept_columns`.
        labels: The columns of labels, that of the main one first.
        columns: All columns that are read.
    """

    def __init__(self, options: PreprocessOptions, *, in_table: bool = False) -> None:
        self.options = options
        reads = in_table or options.table is None
        self.wanted = wanted_columns(options) if reads else {}
        if in_table and not options.no_labels:
            self.wanted["label"] = options.main_label or DEFAULT_LABEL
        self.kept = kept_columns(options) if reads else ()
        further = [one.name for one in self.kept if one.kind == "class_label"]
        self.labels = (*(column for use, column in self.wanted.items() if use == "label"), *further)
        caption = options.consumed_columns.get("caption")
        self._caption = None if caption is None or caption.dims else caption
        kept_names = [one.name for one in self.kept]
        self.columns = tuple(dict.fromkeys([*self.wanted.values(), *kept_names]))

    def read(
        self,
        fields: Mapping[str, Any],
        default: Annotations = Annotations(),  # noqa: B008 (a tuple, never changed)
        class_names: Mapping[str, Sequence[str]] = NO_CLASS_NAMES,
    ) -> Annotations:
        """What the fields of one record say about it.

        Args:
            fields: Values by column.
            default: What its file says; fields take precedence.
            class_names: By label column, where its values are indexes into them.

        Raises:
            Rejection: A field has a value that it cannot have.
        """
        wanted = self.wanted
        if not self.columns:
            return default
        label, group, split, kept = default
        if wanted:
            if "label" in wanted:
                column = wanted["label"]
                names = class_names.get(column, ())
                label = label_of(fields.get(column), names, self.options)
            if "group" in wanted:
                group = text_of(fields.get(wanted["group"]))
            if "split" in wanted:
                split = split_of(fields.get(wanted["split"]))
        if self.kept:
            kept = tuple(self._kept(fields, one, class_names) for one in self.kept)
        return Annotations(label, group, split, kept)

    def _kept(
        self, fields: Mapping[str, Any], one: Feature, class_names: Mapping[str, Sequence[str]]
    ) -> Any:
        value = fields.get(one.name)
        if one.kind == "class_label":
            try:
                return label_of(value, class_names.get(one.name, ()), self.options)
            except Rejection as rejection:
                raise Rejection(rejection.reason, f"{one.name!r}: {rejection.detail}") from None
        if one == self._caption and isinstance(value, list | tuple | np.ndarray):
            detail = f"{one.name!r} is a list of captions: --caption-column '{one.name}[*]'"
            raise Rejection("several-captions", f"{detail} keeps them")
        return kept_value(fields, one)


def text_of(value: Any) -> str | None:
    """A value as text, whole numbers without a fraction; None for null, NaN and blank text.

    Raises:
        Rejection: The value is neither text nor a number.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise Rejection("bad-label", f"{value[:40]!r} is not UTF-8") from None
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Rejection("bad-label", f"{value[:40]!a} has half a character")
        return value if value.strip() else None
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # pandas has floats in a column of whole numbers with a gap
    if isinstance(value, int | float):
        return str(value)
    raise Rejection("bad-label", f"{type(value).__name__} is neither text nor a number")


def label_of(value: Any, class_names: Sequence[str], options: PreprocessOptions) -> str | None:
    """The label that a value means; None if it means none.

    Args:
        value: Text, a number, or a list of them.
        class_names: If numbers are indexes into them; -1 then means "none".
        options: The job: whether a record may have several labels.

    Raises:
        Rejection: The value is of another type or no name of a class, or there are several labels
            and may be one.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    several = list(value) if isinstance(value, list | tuple) else [value]
    if isinstance(value, str | bytes) and options.multi_label:  # bytes: CSV, .cls, Examples
        several = [name.strip() for name in (text_of(value) or "").split(_NAME_SEPARATOR)]
    labels = [name for name in (_class_name(one, class_names) for one in several) if name]
    if options.multi_label and (labels or isinstance(value, list | tuple)):
        return join_labels(labels)  # "" of an empty list: a record of none of the classes
    if not labels:
        return None
    if len(labels) > 1:
        raise Rejection(
            "several-labels", f"it has {len(labels)} labels, {labels[:5]}: --multi-label keeps them"
        )
    return checked_label(labels[0])


def _class_name(value: Any, class_names: Sequence[str]) -> str | None:
    if not class_names or not isinstance(value, int) or isinstance(value, bool):
        return text_of(value)
    if value == -1:
        return None  # Hugging Face and TFDS write it where the label is unknown
    if not 0 <= value < len(class_names):
        detail = f"there are {len(class_names)} class names, got the index {value}"
        raise Rejection("bad-label", detail)
    return class_names[value]


def split_of(value: Any) -> str | None:
    """The split that a value of the split column names.

    Raises:
        Rejection: It names none.
    """
    text = text_of(value)
    split = None if text is None else split_name(text)
    if split is None:
        expected = ", ".join(SPLIT_NAMES)
        raise Rejection("no-split", f"the split column has {text!r}, which is none of {expected}")
    return split
