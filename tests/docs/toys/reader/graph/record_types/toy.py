from __future__ import annotations

from reader.graph.record_types.text import TextParser, text_parser
from reader.record_types.text import TextParser as NumpyTextParser


def toy_parser(parser: NumpyTextParser) -> TextParser:
    return text_parser(parser)
