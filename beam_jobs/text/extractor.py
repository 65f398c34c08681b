"""How documents are read from a corpus: files of many formats, with text in columns or fields."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import override

from beam_jobs.corpus.dataset_metadata import FeatureNames
from beam_jobs.corpus.encoding_declarations import declared_in_text, meant_by_page
from beam_jobs.corpus.encodings import decode, decode_value
from beam_jobs.corpus.formats.html import decode_page
from beam_jobs.corpus.formats.http_response import HTML, media_type
from beam_jobs.corpus.record import RawRecord, Rejection, SourceItem
from beam_jobs.corpus.record_extractor import FileExtractor, TextForm
from beam_jobs.corpus.sampling import describes_others
from beam_jobs.corpus.schema_inference import infer_labels
from beam_jobs.corpus.sniffing import HEAD_BYTES, UNKNOWN, container_of, text_format, text_kind
from beam_jobs.options import TextOptions
from beam_jobs.options.encodings import AUTO
from beam_jobs.options.values import parse_names
from foundation.wording import parse_size

_CACHED_FILES = 64
_TEXTS = ("html", "xml", "json", "jsonl", "txt")  # what a URL may give
# The columns of documents that cleaning works on.
DOCUMENT_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("is_html", pa.bool_(), nullable=False),
        pa.field("encoding", pa.string(), nullable=False),
    ]
)


def document_batch(records: Sequence[RawRecord]) -> pa.RecordBatch:
    """Documents as columns."""
    columns = {
        "record_id": [record.record_id for record in records],
        "text": [record.payload for record in records],
        "is_html": [record.is_html for record in records],
        "encoding": [record.encoding for record in records],
    }
    return pa.record_batch(columns, schema=DOCUMENT_SCHEMA)


class TextExtractor(FileExtractor):
    """Takes documents out of files of many formats."""

    noun = "text"
    plural = "documents"
    column_flag = "--text-column"
    digits = 12
    keeps_example = True
    in_file_names = True
    labels_around_archives = True

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self.columns = parse_names("--text-column", options.text_column)
        self.limit = parse_size("--max-record-bytes", options.max_record_bytes)
        self.needs_class_folders = options.label_column is None
        self.text_form = TextForm(
            options.encoding, options.per_line, options.separator, options.columns
        )
        # The look at a corpus asks twice for its first files.
        self._container_of = functools.lru_cache(_CACHED_FILES)(container_of)

    @override
    def resolved(self) -> TextOptions:
        """Settles the label column, or that there is none, and the splits."""
        return infer_labels(self._options, self)

    @override
    def container_of(self, item: SourceItem) -> str:
        return self._container_of(item.path)

    @override
    def known_format(self, item: SourceItem) -> str:
        return ""

    @override
    def format_of(self, head: bytes, name: str) -> str:
        form = self._options.format
        return text_format(head, name) if form == "auto" else form

    @override
    def is_primary(self, name: str) -> bool:
        return not describes_others(name)

    @override
    def may_hold(self, path: bytes) -> bool:
        return not describes_others(os.fsdecode(path)) and text_kind(path) != UNKNOWN

    @override
    def holds(self, kind: pa.DataType) -> bool:
        return any(test(kind) for test in _HOLD_TEXT)

    @override
    def cells(self, column: pa.Array, name: str) -> list[bytes | Rejection]:
        """The bytes in each cell; they may not be UTF-8."""
        if not self.holds(column.type):
            detail = f"the text column {name!r} must hold text, got {column.type}"
            return [Rejection("no-text", detail)] * len(column)
        null = Rejection("no-text", f"the text column {name!r} must hold text, got null")
        cells = column.cast(pa.large_binary()).to_pylist()
        return [null if cell is None else cell for cell in cells]

    @override
    def from_bytes(self, data: bytes) -> str:
        return decode_value(data)

    @override
    def from_fields(self, fields: Mapping[str, Any]) -> str:
        if len(self.columns) == 1:
            return _text(fields, self.columns[0])
        return "\n".join(_text(fields, column) for column in self.columns)

    @override
    def from_answer(self, record: RawRecord, body: bytes, content_type: str) -> RawRecord:
        mime, charset = media_type(content_type)
        form = text_format(body[:HEAD_BYTES], "")
        if form not in _TEXTS:
            raise Rejection("not-text", f"it begins with {body[:16]!r}, as no text does")
        # A page may begin with any of its tags.
        is_html = form == "html" or (mime in HTML and body.lstrip()[:1] == b"<")
        if is_html:
            text, encoding = decode_page(body, charset)
        else:
            names = itertools.chain(meant_by_page(charset), declared_in_text(body))
            text, encoding = decode(body, AUTO, declared=names)
        return record._replace(original=body, payload=text, encoding=encoding, is_html=is_html)

    @override
    def example_original(
        self, features: Mapping[str, Sequence[Any]], example: bytes, names: FeatureNames
    ) -> bytes:
        return example


_HOLD_TEXT = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def _text(fields: Mapping[str, Any], column: str) -> str:
    value = fields.get(column)
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):  # of an Example
        return decode_value(value)
    kind = type(value).__name__ if value is not None else "null"
    kind = kind if column in fields else "no such column"
    raise Rejection("no-text", f"the text column {column!r} must hold text, got {kind}")
