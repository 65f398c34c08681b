"""Symbols: neither letter, digit, punctuation nor white space."""

from __future__ import annotations

import dataclasses
import functools

import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs.text.cleaning.base import CleaningStep, Texts, above


@dataclasses.dataclass(frozen=True)
class Symbols(CleaningStep):
    r"""Leaves out documents with too many symbols, digits or punctuation.

    Shares are of the characters that are not white space. Marks on letters count as letters.

    Attributes:
        max_symbols: Greatest share of symbols (Unicode categories S*: +, =, <, $, ^, emoji).
        max_digits: Greatest share of digits (N*).
        max_punctuation: Greatest share of punctuation (P*).
    """

    max_symbols: float = 0.1
    max_digits: float = 0.25
    max_punctuation: float = 0.25

    @override
    def __call__(self, texts: Texts) -> None:
        words = texts.measured.words
        chars = words.total(words.chars)
        rules = []
        for name, kind in (("symbols", "S"), ("digits", "N"), ("punctuation", "P")):
            count = functools.partial(pc.count_substring_regex, pattern=rf"\p{kind}")
            counted = words.of_spelling(("count", kind), count)
            most: float = getattr(self, f"max_{name}")
            rules.append(above(f"many-{name}", words.total(counted), chars, most))
        texts.leave_out(*rules)
