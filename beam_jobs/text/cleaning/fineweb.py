"""Lists, menus and repeated lines: the rules that FineWeb adds."""

from __future__ import annotations

import dataclasses

from typing_extensions import override

from beam_jobs.text.cleaning.base import CleaningStep, Texts, above, at_least, at_most
from beam_jobs.text.cleaning.gopher_repetition import duplicates
from beam_jobs.text.cleaning.words import QUOTES, TERMINAL


@dataclasses.dataclass(frozen=True)
class FineWeb(CleaningStep):
    """Leaves out lists, menus and repeated lines (Penedo et al. 2024, section 3.6).

    Lines have a word in them, and are measured without the white space around them. Documents at a
    bound are left out, except for line breaks, as in datatrove.

    Attributes:
        line_punctuation: Share of lines that end in terminal punctuation or a quotation mark, up to
            which documents are left out; -1 switches the rule off.
        short_lines: Share of short lines from which documents are left out; above 1 switches the
            rule off.
        short_line_chars: Greatest length of a short line in Unicode code points.
        duplicate_line_chars: Share of characters in lines that occurred before, of all characters
            but line breaks, from which documents are left out. The paper says 0.1; datatrove, which
            produced the corpus, has 0.01.
        line_breaks: Greatest number of line breaks per word.
    """

    line_punctuation: float = 0.12
    short_lines: float = 0.67
    short_line_chars: int = 30
    duplicate_line_chars: float = 0.01
    line_breaks: float = 0.3

    @override
    def __call__(self, texts: Texts) -> None:
        measured = texts.measured
        words, lines = measured.words, measured.words.lines
        ended = lines.total(words.matching(f"[{TERMINAL}{QUOTES}]$")[lines.lasts])
        breaks = measured.line_breaks
        short = lines.total(lines.chars <= self.short_line_chars)
        again = duplicates(lines)[1]
        chars = measured.chars - breaks
        texts.leave_out(
            at_most("fineweb-line-punctuation", ended, lines.counts, self.line_punctuation),
            at_least("fineweb-short-lines", short, lines.counts, self.short_lines),
            at_least("fineweb-duplicate-line-chars", again, chars, self.duplicate_line_chars),
            above("fineweb-line-breaks", breaks, words.counts, self.line_breaks),
        )
