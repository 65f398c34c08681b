"""What a row or an object says of a document, by the names of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents.base import Document, Part
from beam_jobs.options import TextOptions
from beam_jobs.options.values import parse_kept, parse_names
from beam_jobs.sources.cells import label_of, split_of, text_of, wanted_columns

LOOKED_AT = 16  # records of a file that tell whether it has the columns at all
_LARGEST_INT64, _LARGEST_FLOAT32 = (1 << 63) - 1, 3.4028235e38


class Fields:
    """Takes documents out of mappings from column names to values.

    Args:
        options: The job.

    Attributes:
        text_columns: Whose texts are joined.
        needed: All columns that are read.
    """

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._wanted = wanted_columns(options)
        self._kept = parse_kept(options.keep_columns)
        self.text_columns = parse_names("--text-column", options.text_column)
        kept = [name for name, _ in self._kept]
        self.needed = tuple(dict.fromkeys([*self.text_columns, *self._wanted.values(), *kept]))

    @property
    def text_column(self) -> str:
        """The first text column."""
        return self.text_columns[0]

    def document(
        self,
        row: Mapping[str, Any],
        part: Part,
        encoding: str = "utf-8",
        *,
        text: str | None = None,
        class_names: Sequence[str] = (),
    ) -> Document:
        """The document that a row or an object is.

        Args:
            row: Values by column.
            part: What it lies in.
            encoding: What it was in.
            text: Its text, if not in the row.
            class_names: Of the classes, if labels are indexes into them.

        Raises:
            Rejection: A column is missing, or its value is of another kind.
        """
        wanted = self._wanted
        label, split, group = part.label, part.split, None
        if wanted:
            if "label" in wanted:
                label = label_of(row.get(wanted["label"]), class_names, self._options)
            if "group" in wanted:
                group = text_of(row.get(wanted["group"]))
            if "split" in wanted:
                split = split_of(row.get(wanted["split"]))
        if text is None:
            text = self.text_of_row(row)
        kept: tuple[Any, ...] = ()
        if self._kept:
            kept = tuple(_kept_value(row, name, kind) for name, kind in self._kept)
        return Document(text, False, encoding, label, group, split, kept)

    def text_of_row(self, row: Mapping[str, Any]) -> str:
        """What the text columns of a row hold.

        Raises:
            Rejection: One is missing, or holds no text.
        """
        if len(self.text_columns) == 1:
            return _text(row, self.text_columns[0])
        return "\n".join(_text(row, column) for column in self.text_columns)


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    if isinstance(value, str):
        return value
    found = type(value).__name__ if value is not None else "null"
    found = found if column in row else "no such column"
    raise Rejection("no-text", f"the text column {column!r} must hold text, got {found}")


def _kept_value(row: Mapping[str, Any], name: str, kind: str) -> Any:
    value = row.get(name)
    try:
        if kind == "text":
            return _as_text(value)
        if isinstance(value, str) and "_" in value:
            raise ValueError  # Python would take "2020_01" for 202001
        number = float(value) if kind == "float32" else _whole(value)  # type: ignore[arg-type]
        if kind == "float32" and abs(number) > _LARGEST_FLOAT32 and abs(number) != float("inf"):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        raise Rejection(
            "bad-value", f"the kept column {name!r} must hold {kind}, got {value!r:.80}"
        ) from None


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _whole(value: Any) -> int:
    number = int(value)
    if number != (float(value) if isinstance(value, float) else number):
        raise ValueError
    if not -_LARGEST_INT64 - 1 <= number <= _LARGEST_INT64:
        raise OverflowError
    return number
