"""Folded texts and fingerprints, against Python's own strings."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.dedup.text.normalization import fingerprints, normalized, normalized_words

# Letters of several scripts with their marks, white space of all kinds, compatibility forms,
# punctuation, Han, Kana, Thai.
ALPHABET = (
    "abcXYZ019_-.,;!?'\"()\t\n\r\x0b\x0c\x1c \u00a0\u0085\u1680\u2003\u2028\u2029\u3000"
    "éÉßẞäÄÀàçÇñøØΣ\u03c3ς\u039fδДдЖжİ\u0131ǅﬁ①Ⅳ½e\u0301A\u030aKÅ한국漢字仮名カナｶﾅกำไทย،؛אבع"
)
texts = st.lists(st.text(ALPHABET, max_size=30) | st.text(max_size=12), max_size=8)


def lower(char):
    """Of a character by itself: sigma has another form at the end of a word."""
    return "\u03c3" if char == "\u03c2" else char.lower()


def fold(text):
    normal = unicodedata.normalize("NFKD", text)
    return "".join(word + " " for word in "".join(map(lower, normal)).split())


def parts(of):
    data = of.data.tobytes()
    return [data[one:two].decode() for one, two in zip(of.begins, of.begins[1:], strict=False)]


@given(st.lists(st.text(ALPHABET, max_size=30), max_size=8))
def test_normalized_as_python_does(texts):
    assert parts(normalized(pa_column(texts))) == [fold(text) for text in texts]


def pa_column(texts):
    import pyarrow as pa

    return pa.array(texts, pa.large_string())


SPACELESS = re.compile(
    "([\u4e00-\u9fff\u3041-\u3096\u30a1-\u30fa\u0e01-\u0e4e][\u0300-\u036f\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e\u3099\u309a]*)"
)


@given(st.lists(st.text(ALPHABET, max_size=30), max_size=8))
def test_words_are_letters_marks_and_numbers(texts):
    def words(text):
        kept = (char if unicodedata.category(char)[0] in "LNM" else " " for char in fold(text))
        return SPACELESS.sub(r" \1 ", "".join(kept)).split()

    of = normalized_words(pa_column(texts))
    assert [part.split(" ")[:-1] for part in parts(of)] == [words(text) for text in texts]
    begins, first = of.word_begins()
    assert np.diff(first).tolist() == [len(words(text)) for text in texts]
    assert begins[-1] == len(of.data)


@given(texts)
def test_each_document_by_itself(texts):
    together = fingerprints(pa_column(texts)).to_pylist()
    assert together == [fingerprints(pa_column([text]))[0].as_py() for text in texts]
    sliced = pa_column(["another one", *texts, "é last"])[1:-1]
    assert fingerprints(sliced).to_pylist() == together


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("The  Cat\nsat", " the cat SAT\u00a0", True),
        ("the cat\u2028sat", "the cat sat", True),
        ("caf\u00e9", "CAFE\u0301", True),
        ("\ufb01ne \uff21", "fine a", True),
        ("ΟΔΟΣ", "οδος", True),
        ("cafe", "caf\u00e9", False),
        ("2+2=5", "2-2=5", False),
        ("the cat", "thecat", False),
        ("no. one", "no one", False),
    ],
)
def test_what_counts(column, one, other, equal):
    first, second = fingerprints(column([one, other])).to_pylist()
    assert (first == second) is equal
