"""From serialized records to training elements; one file per record type of the schema.

To add one: write `reader/record_types/NAME.py` (and its twin of that name in beam_jobs), and add a
line here.
"""

from __future__ import annotations

from collections.abc import Callable

from reader.options import ReadOptions, kind_of
from reader.record_types.base import BatchRecords, OpenSplit, RecordType, SingleRecords, TokenInfo
from reader.record_types.image import image_records
from reader.record_types.packed import packed_records
from reader.record_types.text import text_records
from reader.record_types.tokens import token_records

RecordTypeFactory = Callable[[OpenSplit, ReadOptions], SingleRecords | BatchRecords]

RECORD_TYPES: dict[str, RecordTypeFactory] = {
    "image": image_records,
    "text": text_records,
    "tokens": token_records,
    "packed": packed_records,
}

__all__ = [
    "RECORD_TYPES",
    "BatchRecords",
    "OpenSplit",
    "RecordType",
    "RecordTypeFactory",
    "SingleRecords",
    "TokenInfo",
    "kind_of",
]
