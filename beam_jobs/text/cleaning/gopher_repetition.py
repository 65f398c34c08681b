"""Repetition within a document: the rules of MassiveText.

A run of n words is named by the pair of names of its two runs of n - 1 words, so two runs have the
same name if and only if they are equal: no hash, no collision. A run can only be repeated if both
its parts are, so ever fewer remain.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from beam_jobs.columns import BoolArray, IntArray, bounds_of
from beam_jobs.text.cleaning.base import CleaningStep, Rule, Texts, above
from beam_jobs.text.cleaning.words import Lines, Spans, Words


@dataclasses.dataclass(frozen=True)
class GopherRepetition(CleaningStep):
    """Leaves out documents that repeat themselves (Rae et al. 2021, appendix A1.1, table A1).

    Lines and paragraphs have a word in them, and are compared without the white space around them;
    of equal ones all but the first are duplicates. An n-gram is n words in a row within one
    document, whatever is between them. The most frequent one counts only if it occurs twice: in a
    short document a single n-gram may be a fifth of the text. A word counts as part of a duplicate
    n-gram once, however many of these overlap. Shares of characters are of all characters of the
    document. A threshold of 1 or more switches its rule off.

    Attributes:
        duplicate_lines: Greatest share of lines that are duplicates.
        duplicate_paragraphs: Likewise of paragraphs.
        duplicate_line_chars: Greatest share of characters in duplicate lines.
        duplicate_paragraph_chars: Likewise in paragraphs.
        top_2_gram: Greatest share of characters in all occurrences of the most frequent 2-gram (of
            several, the longest).
        top_3_gram: Likewise.
        top_4_gram: Likewise.
        duplicate_5_grams: Greatest share of characters in words of 5-grams that occurred before.
        duplicate_6_grams: Likewise.
        duplicate_7_grams: Likewise.
        duplicate_8_grams: Likewise.
        duplicate_9_grams: Likewise.
        duplicate_10_grams: Likewise.
    """

    duplicate_lines: float = 0.3
    duplicate_paragraphs: float = 0.3
    duplicate_line_chars: float = 0.2
    duplicate_paragraph_chars: float = 0.2
    top_2_gram: float = 0.2
    top_3_gram: float = 0.18
    top_4_gram: float = 0.16
    duplicate_5_grams: float = 0.15
    duplicate_6_grams: float = 0.14
    duplicate_7_grams: float = 0.13
    duplicate_8_grams: float = 0.12
    duplicate_9_grams: float = 0.11
    duplicate_10_grams: float = 0.1

    @override
    def __call__(self, texts: Texts) -> None:
        words, chars = texts.measured.words, texts.measured.chars
        rules: list[Rule] = []
        for kind, lines in (("line", words.lines), ("paragraph", words.paragraphs)):
            count, length = duplicates(lines)
            most: float = getattr(self, f"duplicate_{kind}s")
            rules.append(above(f"duplicate-{kind}s", count, lines.counts, most))
            most = getattr(self, f"duplicate_{kind}_chars")
            rules.append(above(f"duplicate-{kind}-chars", length, chars, most))
        repeats = repeated(words)
        ends = bounds_of(words.chars)
        for n in range(2, 11):
            repeats = longer(repeats, words)
            name = f"top_{n}_gram" if n < 5 else f"duplicate_{n}_grams"
            length = _most_frequent(repeats, words, ends, n) if n < 5 else _again(repeats, words, n)
            rules.append(above(name.replace("_", "-"), length, chars, getattr(self, name)))
        texts.leave_out(*rules)


def duplicates(lines: Lines) -> tuple[IntArray, IntArray]:
    """([n] lines of each document that occurred in it before, [n] their characters)."""
    repeats = repeated(lines)
    again = np.zeros(len(lines), bool)
    again[repeats.places[repeats.again]] = True
    return lines.total(again), lines.total(np.where(again, lines.chars, 0))


def _most_frequent(repeats: RepeatedSpans, words: Words, ends: IntArray, n: int) -> IntArray:
    """[n] int64, characters of the most frequent n-gram, times its number; 0 if none repeats."""
    result = np.zeros(len(words.bounds) - 1, np.int64)
    if not len(repeats.places):
        return result
    places, sizes = repeats.places[repeats.firsts], repeats.sizes
    length = ends[places + n] - ends[places] + (n - 1)  # with a blank between two words
    documents = words.documents[places]
    begins = np.flatnonzero(np.diff(documents, prepend=-1))
    bits = int(length.max()).bit_length()
    best = np.maximum.reduceat((sizes << bits) | length, begins)
    result[documents[begins]] = (best >> bits) * (best & ((1 << bits) - 1))
    return result


def _again(repeats: RepeatedSpans, words: Words, n: int) -> IntArray:
    """[n] int64, characters of the words of n-grams that occurred before."""
    changes = np.zeros(len(words) + 1, np.int64)
    places = repeats.places[repeats.again]
    changes[places] += 1
    changes[places + n] -= 1
    return words.total(np.where(np.cumsum(changes[:-1]) > 0, words.chars, 0))


class RepeatedSpans(NamedTuple):
    """Spans that occur more than once in their document, in groups of equal ones.

    Attributes:
        places: [r] int64, their numbers: group after group, ascending in each.
        names: [r] int64, the group of each; ascending with the document.
        again: [r] bool, all of a group but the first.
    """

    places: IntArray
    names: IntArray
    again: BoolArray

    @property
    def firsts(self) -> IntArray:
        """[groups] int64, the first row of each group."""
        return np.flatnonzero(~self.again)

    @property
    def sizes(self) -> IntArray:
        """[groups] int64, the size of each."""
        return np.diff(np.append(self.firsts, len(self.places)))


def repeated(spans: Spans) -> RepeatedSpans:
    """Spans that occur more than once in one document."""
    spellings = spans.spellings
    size = int(spellings.max()) + 1 if len(spellings) else 1
    return _grouped(spans.documents * size + spellings, np.arange(len(spans)))


def longer(repeats: RepeatedSpans, spans: Spans) -> RepeatedSpans:
    """From repeated runs of n words, by their first word, to those of n + 1 words."""
    order = np.argsort(repeats.places)
    places, names = repeats.places[order], repeats.names[order]
    follows = np.flatnonzero(np.diff(places) == 1)
    follows = follows[spans.documents[places[follows]] == spans.documents[places[follows + 1]]]
    size = int(names.max()) + 1 if len(names) else 1
    return _grouped(names[follows] * size + names[follows + 1], places[follows])


def _grouped(keys: IntArray, places: IntArray) -> RepeatedSpans:
    """The [k] places whose keys occur more than once."""
    if not len(keys):
        return RepeatedSpans(places[:0], places[:0], np.zeros(0, bool))
    bits = int(places.max()).bit_length()
    if int(keys.max()).bit_length() + bits < 64:
        # Sorting values takes a tenth of the time of an argsort, so positions are packed into them.
        packed = np.sort((keys << bits) | places)
        keys, places = packed >> bits, packed & ((1 << bits) - 1)
    else:
        order = np.lexsort((places, keys))
        keys, places = keys[order], places[order]
    again = np.empty(len(keys), bool)
    again[0] = False
    np.equal(keys[1:], keys[:-1], out=again[1:])
    kept = again.copy()
    kept[:-1] |= again[1:]
    again = again[kept]
    return RepeatedSpans(places[kept], np.cumsum(~again) - 1, again)
