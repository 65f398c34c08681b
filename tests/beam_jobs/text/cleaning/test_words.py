"""Words, lines and paragraphs against Python's own."""

from __future__ import annotations

import itertools
import re
import sys

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis.strategies import SearchStrategy

from beam_jobs.text.cleaning.gopher_repetition import longer, repeated
from beam_jobs.text.cleaning.words import Spans, Words, count_words, split_words


def split(*documents: str) -> Words:
    return split_words(pa.array(documents, pa.large_string()))


def lists(spans: Spans) -> list[list[str]]:
    texts, bounds = spans.text.to_pylist(), spans.bounds.tolist()
    return [texts[a:b] for a, b in itertools.pairwise(bounds)]


@given(data=st.data())
def test_words_are_those_of_python(data: st.DataObject, nasty: SearchStrategy[str]) -> None:
    documents = data.draw(st.lists(nasty, max_size=5))
    words = split(*documents)
    expected = [document.split() for document in documents]
    assert lists(words) == expected
    assert words.chars.tolist() == [len(word) for part in expected for word in part]
    spelled = words.vocabulary.take(pa.array(words.ids)).to_pylist()
    assert spelled == [word for part in expected for word in part]
    counted = count_words(pa.array(documents, pa.large_string()))
    assert counted.tolist() == words.counts.tolist() == [len(part) for part in expected]


@given(data=st.data())
def test_lines_and_paragraphs_are_those_of_python(
    data: st.DataObject, nasty: SearchStrategy[str]
) -> None:
    documents = data.draw(st.lists(nasty, max_size=5))
    words = split(*documents)
    lines = [[line.strip() for line in text.split("\n") if line.strip()] for text in documents]
    assert lists(words.lines) == lines
    assert words.lines.chars.tolist() == [len(line) for part in lines for line in part]
    blank = r"[^\S\n]*"
    paragraphs = [
        [part.strip() for part in re.split(rf"\n{blank}(?:\n{blank})+", text) if part.strip()]
        for text in documents
    ]
    assert lists(words.paragraphs) == paragraphs


@given(data=st.data())
def test_filtered_words_are_those_of_the_documents_left(
    data: st.DataObject, nasty: SearchStrategy[str]
) -> None:
    documents = data.draw(st.lists(nasty, min_size=1, max_size=5))
    mask = data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents)))
    left = [text for text, kept in zip(documents, mask, strict=True) if kept]
    filtered, fresh = split(*documents).filter(np.array(mask)), split(*left)
    assert lists(filtered) == lists(fresh)
    assert lists(filtered.lines) == lists(fresh.lines)
    assert filtered.chars.tolist() == fresh.chars.tolist()


def test_every_white_space_divides_words_and_nothing_else() -> None:
    chars = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    assert split(*(f"a{c}b" for c in chars)).counts.tolist() == [
        len(f"a{c}b".split()) for c in chars
    ]


def test_a_slice_of_a_column_has_its_own_words() -> None:
    column = pa.array(["a b", "c d e", "", "f"], pa.large_string())[1:3]
    assert lists(split_words(column)) == [["c", "d", "e"], []]


@given(
    st.lists(st.text("ab ", max_size=30), max_size=4),
    st.integers(2, 10),
)
def test_repeated_runs_are_those_that_counting_finds(documents: list[str], n: int) -> None:
    words = split(*documents)
    repeats = repeated(words)
    for _ in range(n - 1):
        repeats = longer(repeats, words)
    expected, again, first = set(), set(), 0
    for document in documents:
        parts = document.split()
        grams = [tuple(parts[i : i + n]) for i in range(len(parts) - n + 1)]
        for i, gram in enumerate(grams):
            if grams.count(gram) > 1:
                expected.add(first + i)
                if gram in grams[:i]:
                    again.add(first + i)
        first += len(parts)
    assert set(repeats.places.tolist()) == expected
    assert set(repeats.places[repeats.again].tolist()) == again
    assert repeats.sizes.sum() == len(repeats.places)
