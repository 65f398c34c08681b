"""From parsed records to batches in NumPy; one file per record type of the schema.

To add one: write `reader/record_types/NAME.py` (and its twins of that name in reader/graph and
beam_jobs), and add a line here.
"""

from __future__ import annotations

from collections.abc import Callable

from reader.options import ReadOptions
from reader.record_types.base import Parser, TokenInfo
from reader.record_types.image import image_parser
from reader.record_types.packed import packed_parser
from reader.record_types.record import record_parser
from reader.record_types.text import text_parser
from reader.record_types.tokens import token_parser
from reader.records.open_split import OpenSplit

ParserFactory = Callable[[OpenSplit, ReadOptions], Parser]

RECORD_TYPES: dict[str, ParserFactory] = {
    "image": image_parser,
    "text": text_parser,
    "tokens": token_parser,
    "packed": packed_parser,
    "record": record_parser,
}

__all__ = ["RECORD_TYPES", "Parser", "ParserFactory", "TokenInfo"]
