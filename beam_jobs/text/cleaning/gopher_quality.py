"""Properties of running text: the rules of MassiveText."""

from __future__ import annotations

import dataclasses

import numpy as np
from typing_extensions import override

from beam_jobs.text.cleaning.base import CleaningStep, Texts, above, below, counted
from beam_jobs.text.cleaning.stop_words import GOPHER_STOP_WORDS, parse_words, stop_words_found


@dataclasses.dataclass(frozen=True)
class GopherQuality(CleaningStep):
    """Leaves out documents that are not running text (Rae et al. 2021, appendix A1.1).

    Words are separated by white space. As in datatrove, words without a letter or a digit count
    neither for the number nor for the mean length of words. A minimum of 0, or a greatest share of
    1 or more, switches its rule off.

    Attributes:
        min_words: Minimum number of words.
        max_words: Greatest.
        min_word_chars: Minimum mean length of words in Unicode code points.
        max_word_chars: Greatest.
        hashes: Greatest number of "#" per word.
        ellipses: Greatest number of "..." and U+2026 per word.
        bullet_lines: Greatest share of lines that begin with a bullet.
        ellipsis_lines: Greatest share of lines that end with an ellipsis.
        alpha_words: Minimum share of words with a letter.
        min_stop_words: Minimum number of different stop words.
        stop_words: The stop words; case and the punctuation around them are ignored.
    """

    min_words: int = 50
    max_words: int = 100_000
    min_word_chars: float = 3.0
    max_word_chars: float = 10.0
    hashes: float = 0.1
    ellipses: float = 0.1
    bullet_lines: float = 0.9
    ellipsis_lines: float = 0.3
    alpha_words: float = 0.8
    min_stop_words: int = 2
    stop_words: str = GOPHER_STOP_WORDS

    def __post_init__(self) -> None:
        parse_words("gopher-quality", self.stop_words)

    @override
    def __call__(self, texts: Texts) -> None:
        words = texts.measured.words
        lines = words.lines
        real = words.matching(r"[\pL\pN]")
        count, length = words.total(real), words.total(np.where(real, words.chars, 0))
        bullets = lines.total(words.matching("^[\u2022\u2023\u25e6\u25aa\u25cf*-]")[lines.firsts])
        trailing = lines.total(words.matching("(\\.\\.\\.|\u2026)$")[lines.lasts])
        ellipses = words.number_of("...") + words.number_of("\u2026")
        different = stop_words_found(words, parse_words("gopher-quality", self.stop_words))
        alpha = words.total(words.matching(r"\pL"))
        few = different < self.min_stop_words
        texts.leave_out(
            counted("gopher-few-words", count < self.min_words, count),
            counted("gopher-many-words", count > self.max_words, count),
            below("gopher-short-words", length, count, self.min_word_chars),
            above("gopher-long-words", length, count, self.max_word_chars),
            above("gopher-hashes", words.number_of("#"), words.counts, self.hashes),
            above("gopher-ellipses", ellipses, words.counts, self.ellipses),
            above("gopher-bullet-lines", bullets, lines.counts, self.bullet_lines),
            above("gopher-ellipsis-lines", trailing, lines.counts, self.ellipsis_lines),
            below("gopher-alpha-words", alpha, words.counts, self.alpha_words),
            counted("gopher-stop-words", few, different, " of them"),
        )
