"""From serialized records to elements in a graph; one file per record type, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reader.graph.record_types.base import BatchParser, GraphParser, RecordParser
from reader.graph.record_types.image import image_parser
from reader.graph.record_types.packed import packed_parser
from reader.graph.record_types.record import record_parser
from reader.graph.record_types.text import text_parser
from reader.graph.record_types.tokens import token_parser

# From the parser in NumPy.
GRAPH_RECORD_TYPES: dict[str, Callable[[Any], GraphParser]] = {
    "image": image_parser,
    "text": text_parser,
    "tokens": token_parser,
    "packed": packed_parser,
    "record": record_parser,
}

__all__ = ["GRAPH_RECORD_TYPES", "BatchParser", "GraphParser", "RecordParser"]
