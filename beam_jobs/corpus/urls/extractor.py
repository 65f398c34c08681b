"""The URLs in lists, in place of the images or documents that they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import override

from beam_jobs.corpus.dataset_metadata import FeatureNames
from beam_jobs.corpus.record import RawRecord, Rejection, SourceItem
from beam_jobs.corpus.record_extractor import FileExtractor, TextForm
from beam_jobs.corpus.sampling import describes_others
from beam_jobs.corpus.schema_inference import check_columns, infer_labels
from beam_jobs.corpus.sniffing import UNKNOWN, text_format
from beam_jobs.corpus.split_folders import settle_split
from beam_jobs.options import PreprocessOptions, TextOptions
from beam_jobs.options.urls import UrlOptions

# The formats that a list may have.
_LISTS = ("parquet", "arrow", "csv", "tsv", "jsonl", "json", "txt")
_HOLD_URLS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


class UrlExtractor(FileExtractor):
    """Takes URLs out of lists, and makes records of what they give.

    Args:
        options: The job.
        records: Takes out of other sources what URLs lead to.
    """

    column_flag = "--url-column"
    # A small file as servers have them, over a row of a list: 6 KiB over 100 bytes.
    weight = 64
    in_file_names = True
    needs_class_folders = False

    def __init__(self, options: UrlOptions, records: FileExtractor) -> None:
        self._options = options
        self._records = records
        self.noun, self.plural = records.noun, records.plural
        self.digits, self.limit = records.digits, records.limit
        self.columns = (options.url_column or "",)
        self.text_form = TextForm(per_line=True)
        if isinstance(options, TextOptions):
            self.text_form = TextForm(options.encoding, per_line=True, columns=options.columns)

    @override
    def resolved(self) -> PreprocessOptions:
        """Settles labels and splits, from the columns of the lists."""
        if isinstance(self._options, TextOptions):
            return infer_labels(self._options, self)
        check_columns(self._options, self)
        return settle_split(self._options, self)

    @override
    def container_of(self, item: SourceItem) -> str:
        return ""

    @override
    def known_format(self, item: SourceItem) -> str:
        return ""

    @override
    def format_of(self, head: bytes, name: str) -> str:
        form = getattr(self._options, "format", "auto")
        form = text_format(head, name) if form == "auto" else form
        return form if form in _LISTS else UNKNOWN

    @override
    def is_primary(self, name: str) -> bool:
        return not describes_others(name)

    @override
    def holds(self, kind: pa.DataType) -> bool:
        return any(test(kind) for test in _HOLD_URLS)

    @override
    def cells(self, column: pa.Array, name: str) -> list[bytes | Rejection]:
        if not self.holds(column.type):
            wrong = Rejection("no-url", f"the column {name!r} has the type {column.type}")
            return [wrong] * len(column)
        null = Rejection("no-url", f"{name!r} is null")
        cells = column.cast(pa.large_binary()).to_pylist()
        return [null if cell is None else cell for cell in cells]

    @override
    def from_bytes(self, data: bytes) -> str:
        return data.decode("utf-8", "backslashreplace").strip()

    @override
    def from_fields(self, fields: Mapping[str, Any]) -> str:
        name = self.columns[0]
        value = fields.get(name)
        if not isinstance(value, str):
            kind = "null" if value is None else type(value).__name__
            detail = f"{name!r} is {kind}" if name in fields else f"there is no {name!r}"
            raise Rejection("no-url", detail)
        return value.strip()

    @override
    def example_original(
        self, features: Mapping[str, Sequence[Any]], example: bytes, names: FeatureNames
    ) -> bytes:
        raise Rejection("no-url", "TFRecord files are no lists of URLs")

    @override
    def from_answer(self, record: RawRecord, body: bytes, content_type: str) -> RawRecord:
        return self._records.from_answer(record, body, content_type)
