from __future__ import annotations

from reader.options import ReadOptions
from reader.record_types.base import OpenSplit
from reader.record_types.text import TextRecords, text_records


def toy_records(split: OpenSplit, options: ReadOptions) -> TextRecords:
    return text_records(split, options)
