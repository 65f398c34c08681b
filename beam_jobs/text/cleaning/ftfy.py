"""Text that was decoded with the wrong encoding."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import ftfy
import numpy as np
import pyarrow as pa
from ftfy.badness import is_bad
from typing_extensions import override

from beam_jobs.text.cleaning.base import CleaningStep, Texts

# Repairs only, no changes of style: quotation marks, ligatures and full-width letters are kept.
# Line breaks, control characters and normalization are other steps.
REPAIRS = ftfy.TextFixerConfig(
    unescape_html=False,
    fix_latin_ligatures=False,
    fix_character_width=False,
    uncurl_quotes=False,
    fix_line_breaks=False,
    remove_control_chars=False,
    normalization=None,
    explain=False,
)
ENTITIES = REPAIRS._replace(unescape_html="auto")
_NEEDS_ENTITY = "&#?[0-9A-Za-z]{1,24};"


@dataclasses.dataclass(frozen=True)
class Ftfy(CleaningStep):
    """Repairs mojibake (UTF-8 that was decoded as another encoding) by ftfy.

    Equals `ftfy.fix_text` with these repairs: `fix_encoding` with its parts, `fix_c1_controls`,
    `fix_surrogates` and `remove_terminal_escapes`. Documents that ftfy would not change are
    skipped: those in ASCII, and those in which its regular expression `is_bad` finds no bad line.

    Attributes:
        entities: Whether to decode HTML entities too, up to the first line with a "<".
    """

    entities: bool = False
    packages: ClassVar[tuple[str, ...]] = ("ftfy",)

    @override
    def __call__(self, texts: Texts) -> None:
        measured = texts.measured
        config = ENTITIES if self.entities else REPAIRS
        which = measured.containing("\x1b[")
        if self.entities:
            which |= measured.containing("&") & measured.matching(_NEEDS_ENTITY)
        wide = measured.wide & ~which
        lines = texts.text.filter(pa.array(wide)).to_pylist()
        which[wide] = np.fromiter((_is_bad(text) for text in lines), bool, len(lines))
        texts.replace_where(which, lambda text: ftfy.fix_text(text, config))


def _is_bad(text: str) -> bool:
    """Whether ftfy would try to repair a line of a text."""
    return any(not line.isascii() and is_bad(line) for line in text.split("\n"))
