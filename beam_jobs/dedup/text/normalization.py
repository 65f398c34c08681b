"""Text without the differences that count for nothing: Unicode form, case and spacing.

Unicode's own way of loose matching (UAX 15, and section 3.13 of the standard): compatibility form,
then lower case. The form is the decomposed one, NFKD: two texts are equal in it if and only if they
are equal in NFKC, which Arrow 25 does not compose (its "NFKC" is NFKD). Accents stay, for in most
languages they tell words apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray

ByteArray = npt.NDArray[np.uint8]

_SPACE = 0x20
# White space as Unicode has it that NFKD does not make a blank of: it is more than one byte long,
# so it is replaced before bytes are looked at.
_WIDE_SPACE = r"[\x{85}\x{1680}\x{2028}\x{2029}]"
_NO_WORD = r"[^\p{L}\p{N}\p{M}]+"
# Scripts that are written without blanks between words: each of their characters, with its marks,
# counts as a word, so that word 5-grams become character 5-grams there.
_SPACELESS = (
    r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\p{Tibetan}\p{Thai}\p{Lao}\p{Khmer}"
    r"\p{Myanmar}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Javanese}\p{Balinese}]\p{M}*)"
)


def _byte_table(word_alone: bool) -> bytes:
    """What each byte of UTF-8 becomes: white space, or all but words, a blank."""
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


class Folded(NamedTuple):
    """Texts as the words they have, each with one blank behind it.

    Attributes:
        data: [bytes] uint8, UTF-8 of all texts one behind the other.
        begins: [n + 1] int64, where each text begins, and the end.
    """

    data: ByteArray
    begins: IntArray

    def word_begins(self) -> tuple[IntArray, IntArray]:
        """([w + 1] where each word begins, [n + 1] the first word of each text), and the ends."""
        blanks = np.flatnonzero(self.data == _SPACE)
        words = np.concatenate((np.zeros(1, np.int64), blanks + 1))
        return words, np.searchsorted(blanks, self.begins)


def folded(text: pa.LargeStringArray) -> Folded:
    """Texts in compatibility form, in lower case, with one blank where there was white space.

    Args:
        text: [n] large_string without nulls.
    """
    return _squeezed(_lower(text), _SPACES)


def folded_words(text: pa.LargeStringArray) -> Folded:
    """As `folded`, with a blank for whatever is no letter, mark or number.

    Each character of a script that is written without blanks is a word.

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


def rough_words(text: pa.LargeStringArray) -> Folded:
    """Texts cut at every ASCII character that is neither letter nor digit; nothing else is folded.

    `folded_words` of the pieces is that of the texts, for no such character changes what stands
    beside it. There are few different pieces, so folding those alone is many times faster.

    Args:
        text: [n] large_string without nulls.
    """
    return _squeezed(text, _WORDS)


def _lower(text: pa.LargeStringArray) -> pa.LargeStringArray:
    """Texts in NFKD and lower case, without white space of several bytes."""
    low = pc.utf8_lower(pc.utf8_normalize(text, "NFKD"))
    wide = pc.invert(pc.string_is_ascii(low))
    if not pc.any(wide).as_py():
        return low
    some = pc.replace_substring_regex(low.filter(wide), _WIDE_SPACE, " ")
    # The one letter with two small forms: which one stands is a matter of place in the word.
    some = pc.replace_substring(some, "\u03c2", "\u03c3")
    return pc.replace_with_mask(low, wide, some)


def _squeezed(text: pa.LargeStringArray, table: bytes) -> Folded:
    """Every run of bytes that the table makes blanks, and every end, becomes one blank."""
    ended = pc.binary_join_element_wise(text, *_END)
    _, offsets, data = ended.buffers()
    begins = np.frombuffer(offsets, np.int64)[ended.offset : ended.offset + len(ended) + 1]
    if not len(ended) or data is None:
        return Folded(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    own = memoryview(data)[begins[0] : begins[-1]]
    mapped = np.frombuffer(own.tobytes().translate(table), np.uint8)
    begins = begins - begins[0]
    kept = mapped != _SPACE
    kept[1:] |= kept[:-1].copy()  # the first blank behind a word; each text ends with one
    # What goes is little, so its places take less memory than a sum over all bytes.
    return Folded(mapped[kept], begins - np.searchsorted(np.flatnonzero(~kept), begins))
