"""A file is a record; its text is stored reversed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_jobs.corpus.dataset_metadata import FeatureNames
from beam_jobs.corpus.record import RawRecord, Rejection, SourceItem
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.options.toy import ToyOptions
from beam_jobs.record_types.base import Prepared, SingleRecords
from shard_format import Feature, Schema


class ToyExtractor(FileExtractor):
    noun, plural, column_flag, digits = "toy", "toys", "--toy-column", 9
    columns, limit, needs_class_folders = (), 1 << 20, False

    def __init__(self, options: ToyOptions) -> None:
        self._options = options

    def resolved(self) -> ToyOptions:
        return self._options

    def container_of(self, item: SourceItem) -> str:
        return ""

    def known_format(self, item: SourceItem) -> str:
        return "image"  # a file is a record

    def format_of(self, head: bytes, name: str) -> str:
        return "image"

    def is_primary(self, name: str) -> bool:
        return True

    def holds(self, kind: pa.DataType) -> bool:
        return False

    def cells(self, column: pa.Array, name: str) -> list[bytes | Rejection]:
        return []

    def from_bytes(self, data: bytes) -> bytes:
        return data

    def from_fields(self, fields: Mapping[str, Any]) -> bytes:
        return b""

    def example_original(
        self, features: Mapping[str, Sequence[Any]], example: bytes, names: FeatureNames
    ) -> bytes:
        return example


class ToyRecords(SingleRecords):
    version = 1
    schema = Schema("toy", (Feature("id", "text"), Feature("text", "text")))
    statistics = ()

    def __init__(self, options: ToyOptions) -> None:
        self.extractor = ToyExtractor(options)

    def stage_options(self) -> dict[str, Any]:
        return {}

    def prepare(self, record: RawRecord) -> Prepared:
        values = {"id": record.record_id, "text": record.payload.decode()[::-1]}
        return Prepared(values, hashlib.md5(record.payload).digest(), {})
