"""Documents that are too short or too long."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pyarrow as pa

from beam_jobs.text_cleaning.base import Texts


@dataclasses.dataclass(frozen=True)
class Length:
    """Leaves out documents by their number of characters and words.

    Attributes:
        min_chars: Least number of Unicode code points.
        max_chars: Greatest; 0 is no bound.
        min_words: Least number of words.
        max_words: Greatest; 0 is no bound.
    """

    min_chars: int = 1
    max_chars: int = 0
    min_words: int = 0
    max_words: int = 0
    reports: ClassVar[tuple[pa.Field, ...]] = ()

    def __call__(self, texts: Texts) -> None:
        """See Step."""
        chars = texts.measured.chars
        texts.leave_out(
            chars < self.min_chars, "too-short", lambda i: f"it has {chars[i]} characters"
        )
        if self.max_chars:
            longer = texts.measured.chars
            texts.leave_out(
                longer > self.max_chars, "too-long", lambda i: f"it has {longer[i]} characters"
            )
        if self.min_words:
            few = texts.measured.word_counts
            texts.leave_out(few < self.min_words, "few-words", lambda i: f"it has {few[i]} words")
        if self.max_words:
            many = texts.measured.word_counts
            texts.leave_out(
                many > self.max_words, "many-words", lambda i: f"it has {many[i]} words"
            )
