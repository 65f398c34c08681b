"""Control and format characters that are not text."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs.columns import ByteArray
from beam_jobs.text.cleaning.base import CleaningStep, Texts
from beam_jobs.text.cleaning.words import matches

# Vertical tab, form feed and the separators of files, groups and records end a line
# (str.splitlines); the unit separator is a blank. Removing them would join words.
_LINE_ENDS = "\x0b\x0c\x1c\x1d\x1e"
_BLANKS = "\x1f"

# Removed anywhere. \t, \n, \r and U+0085 are white space, for the step "whitespace".
_NO_TEXT = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # C0 and C1 controls
    "\u00ad"  # soft hyphen: where a word might be cut
    "\u202a-\u202e\u2066-\u2069"  # embedding, override and isolation of writing directions
    "\u2060-\u2065\u206a-\u206f"  # word joiner, invisible operators, deprecated format characters
    "\ufeff\ufff9-\ufffb\ufffe\uffff\ufdd0-\ufdef"  # byte order mark, annotations, noncharacters
)

# Joiners shape letters of Arabic, Indic and other scripts and bind emoji; after anything up to
# Cyrillic, white space or punctuation they do nothing.
_SHAPED = "\u0530-\u1fff\u2070-\ud7ff\ue000-\ufdcf\ufdf0-\ufefe\uff00-\ufff8\U00010000-\U0010ffff"
# Scripts without blanks between words, whose words a zero-width space may divide: Thai, Lao,
# Tibetan, Burmese, Khmer, New Tai Lue, Tai Tham, Javanese.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1980-\u19df\u1a20-\u1aaf\ua980-\ua9df\uaa60-\uaa7f"
)
_ZERO_WIDTH = re.compile(f"(?<![{_SHAPED}])[\u200c\u200d]|(?<![{_UNSPACED}])\u200b")
# Tags after a black flag are the flag of a region, and meaningless anywhere else.
_TAGS = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f)|[\U000e0000-\U000e007f]")
_REMOVED = re.compile(f"[{_NO_TEXT}]")
_TO_BLANKS = {ord(char): "\n" for char in _LINE_ENDS} | {ord(char): " " for char in _BLANKS}

_WIDE = "[{}]".format(
    r"\x{7f}-\x{84}\x{86}-\x{9f}\x{ad}\x{200b}-\x{200d}\x{202a}-\x{202e}\x{2060}-\x{206f}\x{feff}"
    r"\x{fff9}-\x{fffb}\x{fffe}\x{ffff}\x{fdd0}-\x{fdef}\x{e0000}-\x{e007f}\x00-\x08\x0b\x0c\x0e-\x1f"
)


@dataclasses.dataclass(frozen=True)
class Controls(CleaningStep):
    r"""Removes control and format characters that are not text.

    Line breaks and tabs are kept, as are marks of the writing direction (U+200E, U+200F, U+061C),
    variation selectors, visible signs, and zero-width characters where a script or an emoji needs
    them. The step is idempotent.
    """

    @override
    def __call__(self, texts: Texts) -> None:
        measured = texts.measured
        which = np.zeros(len(texts), bool)
        if _has_controls(measured.buffers[1]):
            which = measured.matching(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
        wide = measured.wide & ~which
        which[wide] = matches(texts.text.filter(pa.array(wide)), _WIDE)
        texts.replace_where(which, without_controls)


def _has_controls(data: ByteArray) -> bool:
    """Whether bytes contain a control character of ASCII other than tab and line break."""
    known = sum(np.count_nonzero(data == byte) for byte in b"\t\n\r")
    return bool(np.count_nonzero(data < 0x20) > known or (data == 0x7F).any())


def without_controls(text: str) -> str:
    """A text without control and format characters."""
    text = _REMOVED.sub("", text.translate(_TO_BLANKS))
    return _ZERO_WIDTH.sub("", _TAGS.sub(r"\1", text))
