from __future__ import annotations

from reader.options import ReadOptions
from reader.record_types.text import TextParser, text_parser
from reader.records.open_split import OpenSplit


def toy_parser(split: OpenSplit, options: ReadOptions) -> TextParser:
    return text_parser(split, options)
