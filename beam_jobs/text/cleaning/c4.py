"""Lines that are not sentences, and pages that are not prose: the rules of C4."""

from __future__ import annotations

import dataclasses
import functools
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs.columns import BoolArray, IntArray, bounds_of
from beam_jobs.text.cleaning.base import CleaningStep, Rule, Texts
from beam_jobs.text.cleaning.files import InputFile, describe_file
from beam_jobs.text.cleaning.words import SENTENCE_END, Lines, Words, matches

_CITATION = r"\[\d*\]|\[edit\]|\[citation needed\]"
_JAVASCRIPT = r"(?i)javascript"
_POLICY = "(?i)terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"
_LOREM_IPSUM = "(?i)lorem ipsum"
# Words of these phrases: there are fewer spellings than lines, so spellings are matched first.
_POLICY_WORD = "(?i)terms|policy|cookies"
_LOREM = "(?i)lorem"
# ! . " ? end a line, as does ' in the code of the authors; an ellipsis does not.
_TERMINAL = r"([!\"?']|(^|[^.])\.|(^|[^.])\.\.)$"
_NOTHING = pa.scalar("", pa.large_string())


@dataclasses.dataclass(frozen=True)
class C4(CleaningStep):
    """Removes lines that are not sentences, and leaves out pages (Raffel et al. 2020, section 2.2).

    Lines are removed first, and sentences counted in the rest. A document without a removed line is
    not changed; in others lines lose the white space around them, and paragraphs remain separate.
    The rules on long words, citations and policies are in the authors' code (c4_utils in TFDS), not
    in the paper. The deduplication of spans of three sentences is not a rule about one document,
    and not implemented here.

    Attributes:
        terminal_punctuation: Whether to remove lines that do not end in one of . ! ? " '
        min_words_per_line: Remove lines with fewer words.
        max_word_chars: Remove lines with a word of more Unicode code points; 0 is no bound.
        javascript: Whether to remove lines that mention it.
        policy: Whether to remove lines about cookies, privacy and terms of use.
        citations: Whether to remove [1], [edit] and [citation needed].
        lorem_ipsum: Whether to leave out documents that contain it.
        curly_brackets: Whether to leave out documents that contain a "{".
        min_sentences: Minimum number of remaining sentences. A sentence ends with a word that ends
            in a full stop, a question or an exclamation mark, or with its line.
        bad_words: A file with a word or phrase on every line, which no document may contain,
            in any case; in C4 the "List of Dirty, Naughty, Obscene and Otherwise Bad Words".
    """

    terminal_punctuation: bool = True
    min_words_per_line: int = 5
    max_word_chars: int = 1000
    javascript: bool = True
    policy: bool = True
    citations: bool = True
    lorem_ipsum: bool = True
    curly_brackets: bool = True
    min_sentences: int = 3
    bad_words: str = dataclasses.field(default="", metadata={"describe": describe_file})

    def __post_init__(self) -> None:
        if self.bad_words:
            _bad_words(InputFile.at(self.bad_words))

    @override
    def __call__(self, texts: Texts) -> None:
        self._leave_out_pages(texts)
        if self.citations and texts.measured.containing("[").any():
            text = pc.replace_substring_regex(texts.text, _CITATION, "")
            if not text.equals(texts.text):
                texts.replace(text)
        words = texts.measured.words
        kept = self._kept(words)
        sentences = _sentences(words, kept)
        if not kept.all():
            texts.replace(_without(texts.text, words, kept))
        few = sentences < self.min_sentences
        texts.leave_out(Rule("c4-few-sentences", few, lambda i: f"{sentences[i]} are left"))

    def _leave_out_pages(self, texts: Texts) -> None:
        rules = []
        words = texts.measured.words
        if self.lorem_ipsum:
            lines = words.lines
            places = np.flatnonzero(lines.having(words.matching(_LOREM)))
            lorem = np.zeros(len(texts), bool)
            lorem[lines.documents[places[_matches_at(lines, places, _LOREM_IPSUM)]]] = True
            rules.append(Rule("c4-lorem-ipsum", lorem, lambda i: "'lorem ipsum' is in it"))
        if self.curly_brackets:
            curly = words.number_of("{") > 0
            rules.append(Rule("c4-curly-bracket", curly, lambda i: "a '{' is in it"))
        if self.bad_words:
            pattern = _bad_words(InputFile.at(self.bad_words))
            first = [pattern.search(text.lower()) for text in texts.text.to_pylist()]
            bad = np.fromiter((match is not None for match in first), bool, len(first))
            rules.append(Rule("c4-bad-word", bad, lambda i: f"{first[i][0]!r} is in it"))  # type: ignore[index]
        texts.leave_out(*rules)

    def _kept(self, words: Words) -> BoolArray:
        """[lines] bool, which lines are kept."""
        lines = words.lines
        kept: BoolArray = lines.lasts - lines.firsts + 1 >= self.min_words_per_line
        if self.terminal_punctuation:
            kept &= words.matching(_TERMINAL)[lines.lasts]
        if self.max_word_chars:
            if (words.chars > self.max_word_chars).any():
                kept &= np.maximum.reduceat(words.chars, lines.firsts) <= self.max_word_chars
        if self.javascript:
            kept &= ~lines.having(words.matching(_JAVASCRIPT))
        if self.policy:
            places = np.flatnonzero(lines.having(words.matching(_POLICY_WORD)))
            kept[places[_matches_at(lines, places, _POLICY)]] = False
        return kept


def _matches_at(lines: Lines, places: IntArray, pattern: str) -> BoolArray:
    """[len(places)] bool, which of some lines match."""
    if not len(places):
        return np.zeros(0, bool)
    return matches(lines.text.take(pa.array(places)), pattern)


def _sentences(words: Words, kept: BoolArray) -> IntArray:
    """[n] int64, sentences in the kept lines."""
    lines = words.lines
    ends = words.matching(SENTENCE_END).copy()
    ends[lines.lasts] = True
    return words.total(ends & np.repeat(kept, lines.lasts - lines.firsts + 1))


def _without(text: pa.LargeStringArray, words: Words, kept: BoolArray) -> pa.LargeStringArray:
    """[n] large_string of the kept lines; documents that lose none are unchanged."""
    lines = words.lines
    # An empty line between two kept lines is kept, whatever lines were removed there.
    paragraph = np.cumsum(np.isin(lines.firsts, words.paragraphs.firsts))[kept]
    first = np.diff(lines.documents[kept], prepend=-1) != 0
    between = np.where(np.diff(paragraph, prepend=0) != 0, 2, 1)
    between[first] = 0
    breaks = pa.array(["", "\n", "\n\n"], pa.large_string()).take(pa.array(between))
    pieces = pc.binary_join_element_wise(breaks, lines.text.filter(pa.array(kept)), _NOTHING)
    lists = pa.LargeListArray.from_arrays(bounds_of(lines.total(kept)), pieces)
    joined = pc.binary_join(lists, _NOTHING)
    cut = lines.total(kept) < lines.counts
    return pc.if_else(pa.array(cut), joined, text)


@functools.lru_cache(maxsize=8)
def _bad_words(file: InputFile) -> re.Pattern[str]:
    phrases = sorted(
        {" ".join(line.lower().split()) for line in file.text().splitlines()} - {""},
        key=lambda phrase: (-len(phrase), phrase),
    )
    either = "|".join(re.escape(phrase) for phrase in phrases) or "(?!)"
    return re.compile(rf"(?<!\w)(?:{either})(?!\w)")
