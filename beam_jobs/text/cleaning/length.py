"""Documents that are too short or too long."""

from __future__ import annotations

import dataclasses

from typing_extensions import override

from beam_jobs.columns import BoolArray, IntArray
from beam_jobs.text.cleaning.base import CleaningStep, Rule, Texts


@dataclasses.dataclass(frozen=True)
class Length(CleaningStep):
    """Leaves out documents by their number of characters and words.

    A document of white space only is empty, whatever the bounds.

    Attributes:
        min_chars: Minimum number of Unicode code points.
        max_chars: Greatest; 0 is no bound.
        min_words: Minimum number of words between white space.
        max_words: Greatest; 0 is no bound.
    """

    min_chars: int = 0
    max_chars: int = 0
    min_words: int = 0
    max_words: int = 0

    @override
    def __call__(self, texts: Texts) -> None:
        chars, words = texts.measured.chars, texts.measured.word_counts
        rules = [
            Rule("empty", words == 0, lambda i: f"it has {chars[i]} characters, all white space"),
            _bound("too-short", chars < self.min_chars, chars, "characters"),
            _bound("few-words", words < self.min_words, words, "words"),
        ]
        if self.max_chars:
            rules.append(_bound("too-long", chars > self.max_chars, chars, "characters"))
        if self.max_words:
            rules.append(_bound("many-words", words > self.max_words, words, "words"))
        texts.leave_out(*rules)


def _bound(reason: str, out: BoolArray, counts: IntArray, unit: str) -> Rule:
    return Rule(reason, out, lambda i: f"it has {counts[i]} {unit}")
