from __future__ import annotations

from reader.graph.record_types.text import GraphTextParser, text_parser
from reader.record_types.text import TextParser


def toy_parser(parser: TextParser) -> GraphTextParser:
    return text_parser(parser)
