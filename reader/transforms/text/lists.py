"""The operations on text by the same names, on lists of str: what they give without TensorFlow.

Every function maps [n] texts and their random numbers to [n] texts, those that its namesake gives.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from reader.transforms.text.draws import ArrayDraws
from reader.transforms.text.synonyms import SynonymLists
from reader.transforms.text.words import SHARE, stays

Texts = list[str]
# What tf.strings.split takes for white space, and the separators of Unicode (\pZ).
_WORD = re.compile("[^\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_OF_WORDS = ("L", "M", "N")  # categories; other characters around a word are not part of it


def word_dropout(texts: Texts, draws: ArrayDraws) -> Texts:
    """`words.word_dropout`."""
    words = [_WORD.findall(text) for text in texts]
    lengths = _lengths(words)
    kept = iter(stays(draws.each(lengths), lengths).tolist())
    # compress asks for the next word before the next truth, so it takes one text's of them.
    return [" ".join(compress(own, kept)) for own in words]


def word_swap(texts: Texts, draws: ArrayDraws) -> Texts:
    """`words.word_swap`."""
    words = [_WORD.findall(text) for text in texts]
    for own, random in zip(words, _each(words, draws), strict=True):
        ends = 2 * min(_num_changed(own), len(own) // 2)
        order = _first(random, ends)
        for one, other in zip(order[::2], order[1::2], strict=True):
            own[one], own[other] = own[other], own[one]
    return [" ".join(own) for own in words]


def char_swap(texts: Texts, draws: ArrayDraws) -> Texts:
    """`letters.char_swap`."""

    def change(word: str, place: Any, _: Any) -> str:
        first = 1 + pick(place, len(word) - 3)
        return word[:first] + word[first + 1] + word[first] + word[first + 2 :]

    return _with_changed_words(texts, draws, 4, change)


def char_insert(texts: Texts, draws: ArrayDraws) -> Texts:
    """`letters.char_insert`."""

    def change(word: str, place: Any, letter: Any) -> str:
        at = pick(place, len(word) + 1)
        return word[:at] + word[pick(letter, len(word))] + word[at:]

    return _with_changed_words(texts, draws, 1, change)


def char_delete(texts: Texts, draws: ArrayDraws) -> Texts:
    """`letters.char_delete`."""

    def change(word: str, place: Any, _: Any) -> str:
        at = pick(place, len(word))
        return word[:at] + word[at + 1 :]

    return _with_changed_words(texts, draws, 2, change)


def synonym_replacement(texts: Texts, draws: ArrayDraws, synonyms: SynonymLists) -> Texts:
    """`synonyms.synonym_replacement`."""
    words = [_WORD.findall(text) for text in texts]
    drawn = _each(words, draws.stream(0)), _each(words, draws.stream(1))
    for own, ranks, random in zip(words, *drawn, strict=True):
        bounds = [_core(word) for word in own]
        others = [
            synonyms.get(word[begin:end].lower())
            for word, (begin, end) in zip(own, bounds, strict=True)
        ]
        unknown = np.array([other is None for other in others], np.float32)
        for place in _first((ranks + unknown) / 2, _num_changed(own)):
            other, (begin, end) = others[place], bounds[place]
            if other is not None:
                picked = other[pick(random[place], len(other))]
                own[place] = own[place][:begin] + picked + own[place][end:]
    return [" ".join(own) for own in words]


def pick(random: np.float32, count: int) -> int:
    """`letters.pick` of one number."""
    return min(int(random * np.float32(count)), count - 1)


def _with_changed_words(
    texts: Texts, draws: ArrayDraws, min_chars: int, change: Callable[[str, Any, Any], str]
) -> Texts:
    """`letters.change_words`."""
    words = [_WORD.findall(text) for text in texts]
    drawn = [_each(words, draws.stream(number)) for number in range(3)]
    for own, ranks, *random in zip(words, *drawn, strict=True):
        for place in _first(ranks, _num_changed(own)):
            if len(own[place]) >= min_chars:
                own[place] = change(own[place], random[0][place], random[1][place])
    return [" ".join(own) for own in words]


def _each(words: list[list[str]], draws: ArrayDraws) -> Iterator[npt.NDArray[np.float32]]:
    """A random number for each word of each text."""
    lengths = _lengths(words)
    numbers, end = draws.each(lengths), 0
    for length in lengths.tolist():
        begin, end = end, end + length
        yield numbers[begin:end]


def _lengths(words: list[list[str]]) -> npt.NDArray[np.int64]:
    return np.array([len(own) for own in words], np.int64)


def _first(random: npt.NDArray[Any], count: int) -> list[int]:
    """Where the least numbers are, in order."""
    return np.argsort(random, kind="stable")[:count].tolist()


def _num_changed(words: list[str]) -> int:
    """`words.num_changed`, which multiplies in float32."""
    return min(max(int(np.float32(len(words)) * np.float32(SHARE)), 1), len(words))


def _core(word: str) -> tuple[int, int]:
    """Where a word begins and ends within what is around it."""
    begin, end = 0, len(word)
    while begin < end and unicodedata.category(word[begin])[0] not in _OF_WORDS:
        begin += 1
    while begin < end and unicodedata.category(word[end - 1])[0] not in _OF_WORDS:
        end -= 1
    return begin, end
