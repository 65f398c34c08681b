"""Stop words: the most frequent small words of running text."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs.columns import IntArray
from beam_jobs.text.cleaning.base import CleaningStep, Texts, below, counted
from beam_jobs.text.cleaning.words import Words
from shard_format import UsageError

# Rae et al. 2021, appendix A1.1
GOPHER_STOP_WORDS = "the+be+to+of+and+that+have+with"
_MOST = 64  # one bit each
# Removed around a word before it is compared.
PUNCTUATION = (
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00ab\u00bb"
)


@dataclasses.dataclass(frozen=True)
class StopWords(CleaningStep):
    """Leaves out documents with too few stop words, of which running text has many.

    Attributes:
        words: The stop words; case and the punctuation around them are ignored.
        min_share: Minimum share of stop words. The eight of the Gopher paper are 0.14 of the words
            of 1,000 English film reviews, and at least 0.08 of each review.
        min_different: Minimum number of different ones.
    """

    words: str = GOPHER_STOP_WORDS
    min_share: float = 0.06
    min_different: int = 0

    def __post_init__(self) -> None:
        parse_words("stop-words", self.words)

    @override
    def __call__(self, texts: Texts) -> None:
        words = texts.measured.words
        known = parse_words("stop-words", self.words)
        number, different = words.total(_bits(words, known) != 0), stop_words_found(words, known)
        few = different < self.min_different
        texts.leave_out(
            below("few-stop-words", number, words.counts, self.min_share),
            counted("few-different-stop-words", few, different, " of them"),
        )


def parse_words(step: str, text: str) -> tuple[str, ...]:
    """The words of "the+be+to", in lower case.

    Raises:
        UsageError: There are more than 64, or none.
    """
    words = tuple(dict.fromkeys(word.lower() for word in text.split("+") if word))
    if not 0 < len(words) <= _MOST:
        raise UsageError(
            f"The step {step!r} in --clean has {len(words)} stop words, not 1 to {_MOST}. Write "
            "for instance the+be+to+of."
        )
    return words


def stop_words_found(words: Words, known: tuple[str, ...]) -> IntArray:
    """[n] int64, how many different stop words each document has."""
    return np.bitwise_count(words.joined(_bits(words, known), np.bitwise_or)).astype(np.int64)


def _bits(words: Words, known: tuple[str, ...]) -> IntArray:
    """[k] int64, bit j of each word that is stop word j."""
    values = pa.array(known, pa.large_string())
    bits = np.array([0, *(1 << j for j in range(len(known)))], np.uint64).astype(np.int64)

    def bits_of(spellings: pa.LargeStringArray) -> IntArray:
        # Arrow and Python differ in the lower case of some letters beyond ASCII.
        wide = pc.invert(pc.string_is_ascii(spellings))
        bare = pc.ascii_trim(pc.ascii_lower(spellings), PUNCTUATION)
        if pc.any(wide).as_py():
            others = [_bare(spelling) for spelling in spellings.filter(wide).to_pylist()]
            bare = pc.replace_with_mask(bare, wide, pa.array(others, pa.large_string()))
        return bits[pc.index_in(bare, values).fill_null(-1).to_numpy() + 1]

    return words.of_spelling(("stop words", known), bits_of)


def _bare(word: str) -> str:
    """A word in lower case, without punctuation around it."""
    return word.lower().strip(PUNCTUATION)
