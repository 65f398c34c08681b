from __future__ import annotations

from reader.options import ReadOptions
from reader.record_types.base import OpenSplit
from reader.record_types.text import TextParser, text_parser


def toy_parser(split: OpenSplit, options: ReadOptions) -> TextParser:
    return text_parser(split, options)
