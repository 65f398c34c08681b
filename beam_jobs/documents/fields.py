"""What a row or an object says of a document, by the names of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_jobs.documents.base import Document, Part
from beam_jobs.options import TextOptions
from beam_jobs.options.values import parse_kept, parse_names
from beam_jobs.refusal import Refusal
from beam_jobs.sources.cells import said_by


class Fields:
    """Takes documents out of mappings from column names to values.

    Args:
        options: The job.
    """

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._text_columns = parse_names("--text-column", options.text_column)
        self._kept = parse_kept(options.keep_columns)

    def document(self, row: Mapping[str, Any], part: Part, encoding: str = "utf-8") -> Document:
        """The document that a row or an object is.

        Raises:
            Refusal: A column is missing, or its value is of another kind.
        """
        texts = [self._text(row, column) for column in self._text_columns]
        said = said_by(dict(row), (), self._options)
        return Document(
            text="\n".join(texts),
            encoding=encoding,
            label=said.label if said.label is not None else part.label,
            group=said.group,
            split=said.split or part.split,
            kept=tuple(_kept_value(row, name, kind) for name, kind in self._kept),
        )

    @staticmethod
    def _text(row: Mapping[str, Any], column: str) -> str:
        value = row.get(column)
        if not isinstance(value, str):
            found = type(value).__name__ if column in row else "no such column"
            raise Refusal("no-text", f"the text column {column!r} must hold text, got {found}")
        return value


def _kept_value(row: Mapping[str, Any], name: str, kind: str) -> Any:
    value = row.get(name)
    try:
        if kind == "text":
            return "" if value is None else str(value)
        return int(value) if kind == "int64" else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise Refusal(
            "bad-value", f"the kept column {name!r} must hold {kind}, got {value!r:.80}"
        ) from None
