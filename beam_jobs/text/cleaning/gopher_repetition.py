"""Repetition within a document: the rules of MassiveText."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.text.cleaning.base import Rule, Texts
from beam_jobs.text.cleaning.ratios import above
from beam_jobs.text.cleaning.repeats import Repeats, longer, repeated
from beam_jobs.text.cleaning.words import Lines, Words


@dataclasses.dataclass(frozen=True)
class GopherRepetition:
    """Leaves out documents that repeat themselves (Rae et al. 2021, appendix A1.1, table A1).

    Lines and paragraphs have a word in them, and are compared without the white space around them;
    of equal ones all but the first are duplicates. An n-gram is n words in a row, whatever stands
    between them, within one document. The most frequent one counts only if it stands there twice:
    in a short document a single n-gram may already be a fifth of the text. A word counts as part
    of a duplicate n-gram once, however many of them overlap there. All shares of characters are of
    all characters of the document. A threshold of 1 or more switches its rule off.

    Attributes:
        duplicate_lines: Greatest share of lines that are duplicates.
        duplicate_paragraphs: Likewise of paragraphs.
        duplicate_line_chars: Greatest share of characters in duplicate lines.
        duplicate_paragraph_chars: Likewise in paragraphs.
        top_2_gram: Greatest share of characters in all occurrences of the most frequent 2-gram, of
            those the longest.
        top_3_gram: Likewise.
        top_4_gram: Likewise.
        duplicate_5_grams: Greatest share of characters in words of 5-grams that stood there before.
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
    reports: ClassVar[tuple[pa.Field, ...]] = ()

    def __call__(self, texts: Texts) -> None:
        """See Step."""
        words, chars = texts.measured.words, texts.measured.chars
        rules: list[Rule] = []
        for kind, lines in (("line", words.lines), ("paragraph", words.paragraphs)):
            count, length = duplicates(lines)
            most: float = getattr(self, f"duplicate_{kind}s")
            rules.append(above(f"duplicate-{kind}s", count, lines.counts, most))
            most = getattr(self, f"duplicate_{kind}_chars")
            rules.append(above(f"duplicate-{kind}-chars", length, chars, most))
        repeats = repeated(words)
        ends = np.concatenate([[0], np.cumsum(words.chars)])
        for n in range(2, 11):
            repeats = longer(repeats, words)
            name = f"top_{n}_gram" if n < 5 else f"duplicate_{n}_grams"
            length = _most_frequent(repeats, words, ends, n) if n < 5 else _again(repeats, words, n)
            rules.append(above(name.replace("_", "-"), length, chars, getattr(self, name)))
        texts.leave_out_by(rules)


def duplicates(lines: Lines) -> tuple[IntArray, IntArray]:
    """([n] lines of each document that stood in it before, [n] their characters)."""
    repeats = repeated(lines)
    again = np.zeros(len(lines), bool)
    again[repeats.places[repeats.again]] = True
    return lines.total(again), lines.total(np.where(again, lines.chars, 0))


def _most_frequent(repeats: Repeats, words: Words, ends: IntArray, n: int) -> IntArray:
    """[n] int64, characters of the most frequent n-gram, times its number; 0 where none repeats."""
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


def _again(repeats: Repeats, words: Words, n: int) -> IntArray:
    """[n] int64, characters of the words of n-grams that stood there before."""
    changes = np.zeros(len(words) + 1, np.int64)
    places = repeats.places[repeats.again]
    changes[places] += 1
    changes[places + n] -= 1
    return words.total(np.where(np.cumsum(changes[:-1]) > 0, words.chars, 0))
