"""White space."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs.columns import BoolArray
from beam_jobs.text.cleaning.base import CleaningStep, Texts

# White space of str.isspace except the line break; \s of RE2 has less.
_BLANK = (
    r"[\t\x0b-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}"
    r"\x{3000}]"
)
_WIDE_BREAKS = r"\r\n?|\x{2028}|\x{2029}|\x{85}"


@dataclasses.dataclass(frozen=True)
class Whitespace(CleaningStep):
    r"""One kind of line break, no blanks at the ends of lines, no run of empty lines.

    \r\n, \r, U+0085, U+2028 and U+2029 become \n. Blanks within lines and before them are kept:
    they may be code, verse or a table. The step is idempotent.

    Attributes:
        empty_lines: How many empty lines in a row are kept.
        blanks: Whether to reduce every run of blanks within a line to one, and remove those before
            it.
    """

    empty_lines: int = 1
    blanks: bool = False

    @override
    def __call__(self, texts: Texts) -> None:
        which = self._untidy(texts)
        if which.any():
            mask = pa.array(which)
            tidy = self._tidied(texts.text.filter(mask), bool(texts.measured.wide[which].any()))
            texts.replace(pc.replace_with_mask(texts.text, mask, tidy))

    def _untidy(self, texts: Texts) -> BoolArray:
        """[n] bool, which documents may need a change; four times as fast as changing all."""
        measured = texts.measured
        offsets, data = measured.buffers
        which = measured.wide | measured.containing("\r")
        if self.blanks:
            return np.ones(len(texts), bool)
        breaks = np.flatnonzero(data == ord("\n"))
        run = self.empty_lines + 1
        odd = np.zeros(len(breaks), bool)
        odd[run:] = breaks[run:] - breaks[:-run] == run  # one line break too many
        odd |= (breaks > 0) & (data[breaks - 1] <= 0x20) & (data[breaks - 1] != ord("\n"))
        which[np.searchsorted(offsets, breaks[odd], side="right") - 1] = True
        trimmed = pc.utf8_trim_whitespace(texts.text)
        return which | pc.not_equal(trimmed, texts.text).to_numpy(zero_copy_only=False)

    def _tidied(self, text: pa.LargeStringArray, wide: bool) -> pa.LargeStringArray:
        """The documents with tidy white space; `wide`: whether one has a character beyond ASCII."""
        text = pc.replace_substring_regex(text, _WIDE_BREAKS if wide else r"\r\n?", "\n")
        blank = _BLANK if wide else r"[\t\x0b-\r\x1c-\x20]"
        text = pc.replace_substring_regex(text, f"{blank}+\n", "\n")
        if self.blanks:
            text = pc.replace_substring_regex(text, f"\n{blank}+", "\n")
            text = pc.replace_substring_regex(text, f"{blank}{{2,}}|\t", " ")
        most = "\n" * (self.empty_lines + 1)
        text = pc.replace_substring_regex(text, f"{most}\n+", most)
        return pc.utf8_trim_whitespace(text)
