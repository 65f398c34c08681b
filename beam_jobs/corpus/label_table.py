"""The table of --labels (CSV, TSV, JSON lines or Parquet): what it says about the file of a path.

With several sources, paths begin with the name of the source, as record ids do
(`names.prefixes`).
"""

from __future__ import annotations

import bisect
import itertools
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.corpus.dataset_metadata import huggingface_classes
from beam_jobs.corpus.item_table import row_batch
from beam_jobs.corpus.kept_values import kept_from_json, kept_json
from beam_jobs.corpus.labels import COLUMN_FLAGS, AnnotationReader, use_of_kept
from beam_jobs.corpus.names import readable_name
from beam_jobs.corpus.record import (
    LABEL_SEPARATOR,
    Annotations,
    Rejection,
    SourceItem,
    join_labels,
)
from beam_jobs.corpus.source_io import UnreadableError
from beam_jobs.corpus.table_rows import TableRows, printable
from beam_jobs.options import PreprocessOptions
from foundation import storage
from foundation.wording import did_you_mean
from shard_format import InputError

_BATCH_ROWS = 8192
_ESCAPED = re.compile(rb"//x([0-9a-f]{2})")
_ROWS = pa.schema(
    [
        # The path with 0x00 for "/", so that sorting gives the order in which folders are walked.
        pa.field("key", pa.binary()),
        pa.field("label", pa.string()),
        pa.field("group", pa.string()),
        pa.field("split", pa.string()),
        pa.field("kept", pa.binary()),  # JSON
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("row", pa.int64()),
    ]
)


class LabelTable:
    """Annotations by record id.

    Held in memory are the rows as columns, sorted by path.

    Args:
        options: The job; --labels is given.

    Raises:
        InputError: The table cannot be read, or lacks a column.
    """

    absent = "no row of the table names this file"

    def __init__(self, options: PreprocessOptions) -> None:
        self._options = options
        self._path = options.labels or ""
        table = _read_table(self._path, options)
        self._without_path = table.filter(pc.is_null(table["key"]))
        rows = table.filter(pc.is_valid(table["key"])).combine_chunks()
        rows = rows.take(pc.sort_indices(rows["key"])) if len(rows) else rows
        keys = rows["key"].combine_chunks()
        self._rows = rows.drop_columns(["key", "row"])
        differs = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        # The first row of every distinct key, and the number of rows.
        self._starts = np.array([*[0] * bool(len(keys)), *np.flatnonzero(differs) + 1, len(keys)])
        self._keys = keys.take(pa.array(self._starts[:-1]))
        self._used = np.zeros(len(self._keys), bool)

    def look_up(self, item: SourceItem) -> Annotations | Rejection | None:
        """What the table says about an item; None if no row names it."""
        key = _unescaped(item.record_id.encode()).replace(b"/", b"\0")
        number = bisect.bisect_left(self._keys, key, key=pa.BinaryScalar.as_py)
        if number == len(self._keys) or self._keys[number].as_py() != key:
            return None
        self._used[number] = True
        start, end = self._starts[number : number + 2].tolist()
        return self._united(self._rows.slice(start, end - start))

    def without(self, item: SourceItem) -> None:
        """What is said of an item that no row names: nothing."""
        return None

    def is_this(self, item: SourceItem) -> bool:
        """Whether an item is the table itself."""
        if item.path == os.fsencode(self._path):
            return True
        try:
            return os.path.samefile(item.path, os.fsencode(self._path))
        except OSError:
            return False

    def unused(self) -> Iterator[SourceItem]:
        """A rejected item for every row that names no file, once all files were looked up."""
        name = readable_name(os.fsencode(os.path.basename(self._path)))
        columns = (self._without_path[name].to_pylist() for name in ("reason", "detail", "row"))
        for reason, detail, row in zip(*columns, strict=True):
            item = SourceItem(f"{name}/{row:09d}", b"", None, 0, 0)
            yield item.rejected(Rejection(reason, detail))
        rejection = Rejection(
            "missing-file", "a row names it, and no file that is not hidden has this path"
        )
        for number in np.flatnonzero(~self._used).tolist():
            row = self._rows.slice(int(self._starts[number]), 1)
            parts = self._keys[number].as_py().split(b"\0")
            record_id = "/".join(readable_name(part) for part in parts)
            item = SourceItem(record_id, b"", row["label"][0].as_py(), 0, 0)
            yield item.rejected(rejection)

    def _united(self, rows: pa.Table) -> Annotations | Rejection:
        """What all rows of one path say together."""
        read = rows.to_pylist()
        said_by_row = [_annotations(row) for row in read]
        if all(other == read[0] for other in read[1:]):
            return said_by_row[0]
        for one in said_by_row:
            if isinstance(one, Rejection):
                return one
        said = [one for one in said_by_row if isinstance(one, Annotations)]
        labels = {one.label for one in said if one.label is not None}
        others = {(row["group"], row["split"], row["kept"]) for row in read}
        if self._options.multi_label and len(others) == 1 and labels:
            names = itertools.chain.from_iterable(
                label.split(LABEL_SEPARATOR) for label in labels if label
            )
            return said[0]._replace(label=join_labels(names))
        shown = sorted({" ".join(f"{value!a}" for value in one if value) for one in said})
        detail = f"{len(said_by_row)} rows name it, with {', '.join(shown[:5])}"
        return Rejection("contradictory-rows", detail)


def _annotations(row: dict[str, Any]) -> Annotations | Rejection:
    if row["reason"]:
        return Rejection(row["reason"], row["detail"])
    return Annotations(row["label"], row["group"], row["split"], kept_from_json(row["kept"]))


def _read_table(path: str, options: PreprocessOptions) -> pa.Table:
    """The rows of the table, in its order.

    Raises:
        InputError: It cannot be read, or lacks a column.
    """
    place = storage.place_of(path)
    if storage.stat(place) is None and os.path.exists(path):
        # It is opened more than once; a pipe would lose rows, or be waited for without end.
        raise InputError(
            f"--labels {path} is a folder, a pipe or a device. Write the table to a file, which "
            "can be read more than once."
        )
    try:
        return pa.Table.from_batches(list(_batches(path, options)), _ROWS)
    except (OSError, UnreadableError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Cannot read --labels {path}: {reason}. Check the path.") from error
    except (pa.ArrowException, Rejection) as error:
        if isinstance(error, Rejection) and error.reason == "missing-file":
            raise InputError(
                f"Cannot read --labels {path}: no such file. Check the path."
            ) from error
        raise InputError(
            f"--labels {path} is not a valid CSV, TSV, JSONL or Parquet table: "
            f"{printable(str(error).splitlines()[0][:200])}. Correct the table."
        ) from error


def _batches(path: str, options: PreprocessOptions) -> Iterator[pa.RecordBatch]:
    reader = AnnotationReader(options, in_table=True)
    kept = {f"{use_of_kept(one, options)} {one.name}": one.name for one in reader.kept}
    columns = {"path": options.path_column, **reader.wanted} | kept
    table = TableRows(path, "--labels")
    if table.is_object:
        raise InputError(
            f"--labels {path} is a file in the form of COCO, one object with images, "
            "annotations and categories, not a table. --annotations takes it, with its objects. "
            'For labels alone write one of it: for each annotation a line {"path": FILE, "label": '
            "CATEGORY}, with the path below SRC. With --multi-label an image has all its "
            "categories; without, it must have one."
        )
    if table.knows_names:
        _check_columns(path, columns, table.names)
    class_names = huggingface_classes(table.schema, reader.labels) if table.schema else {}
    rows = (
        (*_row(row, class_names, reader, options.path_column), number)
        for number, row in enumerate(table.rows(sorted(set(columns.values()))))
    )
    while batch := list(itertools.islice(rows, _BATCH_ROWS)):
        yield row_batch(batch, _ROWS)
    if not table.knows_names:
        _check_columns(path, columns, table.names)


def _row(
    fields: dict[str, Any] | Rejection,
    names: dict[str, list[str]],
    reader: AnnotationReader,
    path_column: str,
) -> tuple[Any, ...]:
    key = None
    try:
        if isinstance(fields, Rejection):
            raise fields
        key = _key(fields.get(path_column))
        annotations = reader.read(fields, class_names=names)
    except Rejection as rejection:
        return (key, None, None, None, b"[]", rejection.reason, rejection.detail)
    return (key, *annotations[:3], kept_json(annotations.kept), "", "")


def _key(value: Any) -> bytes:
    """A path of the table, below the source.

    Raises:
        Rejection: There is none, or it leads out of the source.
    """
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if not isinstance(value, bytes) or not value:
        raise Rejection("no-path", f"the row has the path {value!a}")
    path = _unescaped(value)
    if b"//" in path or b"./" in path or path.startswith(b"/") or path.endswith((b".", b"/")):
        path = posixpath.normpath(path)
    if path.startswith(b"/"):
        raise Rejection("unsafe-path", f"the path {value[:200]!a} is not relative to SRC")
    if path.split(b"/", 1)[0] == b".." or b"\0" in path:
        raise Rejection("unsafe-path", f"the path {value[:200]!a} leads out of SRC")
    return path.replace(b"/", b"\0")


def _unescaped(path: bytes) -> bytes:
    """A path with the bytes that record ids spell as //xNN, of names that are not UTF-8."""
    if b"//x" not in path:
        return path
    return _ESCAPED.sub(lambda match: bytes((int(match[1], 16),)), path)


def _check_columns(path: str, columns: dict[str, str], names: Sequence[str]) -> None:
    """Checks that the table has every column that is wanted, once.

    Args:
        path: The table.
        columns: The columns by their use.
        names: Those that it has.

    Raises:
        InputError: It does not.
    """
    for use, column in columns.items():
        if names.count(column) != 1:
            count = "no" if column not in names else str(names.count(column))
            flag = COLUMN_FLAGS[use.partition(" ")[0]]
            near = "" if column in names else did_you_mean(column, names)
            raise InputError(
                f"--labels {path} has {count} column {column!r} ({flag}). It has "
                f"{', '.join(map(repr, names))}. {near}Name one of these"
                f"{' or use --no-labels' if use == 'label' else ''}."
            )
