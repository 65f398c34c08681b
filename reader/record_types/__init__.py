"""From serialized records to training elements; one file per record type of the schema.

To add one: write `reader/record_types/NAME.py` (and its twin of that name in beam_jobs), and add a
line here.
"""

from __future__ import annotations

from collections.abc import Callable

from reader.options import ReadOptions
from reader.record_types.base import BatchRecords, OpenSplit, RecordType, SingleRecords, TokenInfo
from reader.record_types.image import image_records
from reader.record_types.packed import packed_records
from reader.record_types.text import text_records
from reader.record_types.tokens import token_records
from shard_format import Schema

RecordTypeFactory = Callable[[OpenSplit, ReadOptions], SingleRecords | BatchRecords]

RECORD_TYPES: dict[str, RecordTypeFactory] = {
    "image": image_records,
    "text": text_records,
    "tokens": token_records,
    "packed": packed_records,
}


def kind_of(schema: Schema) -> str:
    """Which of `RECORD_TYPES` a set is read as; an unknown record type is returned unchanged.

    Documents are stored as text, as token ids, or as packed sequences of them: the features decide.
    """
    if schema.record_type not in ("text", "tokens"):
        return schema.record_type
    names = {feature.name for feature in schema.features}
    if "tokens" not in names:
        return "text"
    return "packed" if "segments" in names else "tokens"


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
