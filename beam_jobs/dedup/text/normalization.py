"""Normalized text, without differences in Unicode form, case and spacing; and its fingerprints.

This is loose matching as Unicode defines it (UAX 15, and section 3.13 of the standard):
compatibility form, then lower case. The form is the decomposed one, NFKD: two texts are equal in it
if and only if they are equal in NFKC, which Arrow 25 does not compose (its "NFKC" is NFKD). Accents
are kept, since in most languages they distinguish words.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import ByteArray, IntArray, string_buffers

_SPACE = 0x20
# Unicode white space that NFKD does not turn into a blank. It has more than one byte, so it is
# replaced before bytes are looked at.
_WIDE_SPACE = r"[\x{85}\x{1680}\x{2028}\x{2029}]"
_NO_WORD = r"[^\p{L}\p{N}\p{M}]+"
# Scripts without blanks between words: each character with its marks counts as a word, so that word
# 5-grams become character 5-grams.
_SPACELESS = (
    r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\p{Tibetan}\p{Thai}\p{Lao}\p{Khmer}"
    r"\p{Myanmar}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Javanese}\p{Balinese}]\p{M}*)"
)


def _byte_table(word_alone: bool) -> bytes:
    """A table for bytes.translate: white space, or all ASCII but letters and digits, to a blank."""
    table = bytearray(range(256))
    for code in range(128):
        char = chr(code)
        if not char.isalnum() if word_alone else char.isspace():
            table[code] = _SPACE
    return bytes(table)


_SPACES = _byte_table(word_alone=False)
_WORDS = _byte_table(word_alone=True)

# Joined to a text by " ": a blank more.
_END = (pa.scalar("", pa.large_string()), pa.scalar(" ", pa.large_string()))


class NormalizedTexts(NamedTuple):
    """Texts as words, each followed by one blank.

    Attributes:
        data: [bytes] uint8, UTF-8 of all texts, concatenated.
        begins: [n + 1] int64, where each text begins, and the end.
    """

    data: ByteArray
    begins: IntArray

    def word_begins(self) -> tuple[IntArray, IntArray]:
        """([w + 1] where each word begins, [n + 1] the first word of each text), and the ends."""
        blanks = np.flatnonzero(self.data == _SPACE)
        words = np.concatenate((np.zeros(1, np.int64), blanks + 1))
        return words, np.searchsorted(blanks, self.begins)


def normalized(text: pa.LargeStringArray) -> NormalizedTexts:
    """Texts in compatibility form and lower case, with one blank for each run of white space.

    Args:
        text: [n] large_string without nulls.
    """
    return _squeezed(_lower(text), _SPACES)


def normalized_words(text: pa.LargeStringArray) -> NormalizedTexts:
    """As `normalized`, with a blank for everything but letters, marks and numbers.

    Each character of a script without blanks is a word.

    Args:
        text: [n] large_string without nulls.
    """
    low = _lower(text)
    wide = pc.invert(pc.string_is_ascii(low))
    if pc.any(wide).as_py():
        some = pc.replace_substring_regex(low.filter(wide), _NO_WORD, " ")
        some = pc.replace_substring_regex(some, _SPACELESS, r" \1 ")
        low = pc.replace_with_mask(low, wide, some)
    return _squeezed(low, _WORDS)


def split_ascii(text: pa.LargeStringArray) -> NormalizedTexts:
    """Texts split at every ASCII character that is neither letter nor digit; else unchanged.

    `normalized_words` of the pieces equals that of the texts, since no such character affects its
    neighbours. There are few different pieces, so normalizing these is many times faster.

    Args:
        text: [n] large_string without nulls.
    """
    return _squeezed(text, _WORDS)


def fingerprints(text: pa.LargeStringArray) -> pa.Array:
    """[n] fixed-size binary (16): the first half of SHA-256 of each text, normalized.

    Punctuation counts: "2+2=5" is not "2-2=5".

    Args:
        text: [n] large_string without nulls.
    """
    of = normalized(text)
    data, begins = of.data.data, of.begins.tolist()
    digests = [
        hashlib.sha256(data[begin:end]).digest()[:16] for begin, end in itertools.pairwise(begins)
    ]
    return pa.array(digests, pa.binary(16))


def _lower(text: pa.LargeStringArray) -> pa.LargeStringArray:
    """Texts in NFKD and lower case, with one-byte white space only."""
    low = pc.utf8_lower(pc.utf8_normalize(text, "NFKD"))
    wide = pc.invert(pc.string_is_ascii(low))
    if not pc.any(wide).as_py():
        return low
    some = pc.replace_substring_regex(low.filter(wide), _WIDE_SPACE, " ")
    # Final sigma: the only letter with two lower-case forms, by its place in the word.
    some = pc.replace_substring(some, "\u03c2", "\u03c3")
    return pc.replace_with_mask(low, wide, some)


def _squeezed(text: pa.LargeStringArray, table: bytes) -> NormalizedTexts:
    """Texts with one blank for every run of bytes that the table maps to blanks, and at the end."""
    begins, data = string_buffers(pc.binary_join_element_wise(text, *_END))
    mapped = np.frombuffer(data.tobytes().translate(table), np.uint8)
    kept = mapped != _SPACE
    kept[1:] |= kept[:-1].copy()  # the first blank behind a word; each text ends with one
    # Few bytes are removed, so their places take less memory than a sum over all bytes.
    return NormalizedTexts(mapped[kept], begins - np.searchsorted(np.flatnonzero(~kept), begins))
