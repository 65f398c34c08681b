"""Text that was decoded in the wrong encoding."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import ftfy
import numpy as np
import pyarrow as pa
from ftfy.badness import is_bad

from beam_jobs.text.cleaning.base import Texts

# What repairs, and nothing that changes style: quotation marks, ligatures and full-width letters
# stay. Line breaks, control characters and normalization are steps of their own.
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
class Ftfy:
    """Repairs mojibake (UTF-8 that was read as another encoding) by ftfy.

    Gives what `ftfy.fix_text` gives with these repairs: `fix_encoding` with its parts,
    `fix_c1_controls`, `fix_surrogates` and `remove_terminal_escapes`. Documents in which ftfy would
    find nothing to do are not shown to it: it begins with ASCII as with text that `is_bad` does not
    find bad, a regular expression that is asked of every line by itself, as ftfy does.

    Attributes:
        entities: Whether to decode HTML entities too, up to the first line with a "<".
    """

    entities: bool = False
    reports: ClassVar[tuple[pa.Field, ...]] = ()

    def __call__(self, texts: Texts) -> None:
        """See Step."""
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
    """Whether ftfy would look into a line of a text."""
    return any(not line.isascii() and is_bad(line) for line in text.split("\n"))
