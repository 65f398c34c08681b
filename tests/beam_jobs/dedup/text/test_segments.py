"""Parts of a text: columns and single texts must agree on which is which."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.dedup.text.segments import BLANK, SHORT, remove_segments, segment_hashes

LINES = [
    "", " ", "\t", "}", "Yes.", "A line that is long enough.", "a LINE  that is long enough.\r",
    "The next one is as long.", "\x0b", "é and some more words here", "\u2028",
]  # fmt: skip
texts = st.lists(st.sampled_from(LINES), max_size=9).map("\n".join) | st.text("a \t\n\r\x0b\x0c{")
kinds = st.sampled_from(["lines", "paragraphs"])


def hashes(text, kind):
    return segment_hashes(pa.array([text], pa.large_string()), kind)[0].as_py()


@given(texts, kinds, st.data())
def test_what_is_dropped_is_what_was_numbered(text, kind, data):
    whole = hashes(text, kind)
    dropped = data.draw(st.sets(st.integers(0, len(whole) - 1)))
    left = hashes(remove_segments(text, sorted(dropped), kind), kind)
    expected = [one for number, one in enumerate(whole) if number not in dropped]
    assert [one for one in left if one != BLANK] == [one for one in expected if one != BLANK]


@given(texts, kinds)
def test_nothing_dropped_changes_nothing(text, kind):
    assert remove_segments(text, [], kind) == text


@given(st.lists(texts, max_size=6), kinds)
def test_each_document_by_itself(many, kind):
    together = segment_hashes(pa.array(many, pa.large_string()), kind).to_pylist()
    assert together == [hashes(text, kind) for text in many]


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ("", BLANK),
        (" \t", BLANK),
        ("}", SHORT),
        ("Yes.", SHORT),
        ("four words are few", SHORT),
        ("supercalifragilistic", None),  # 20 characters, without a blank
        ("これは", SHORT),
        ("これは日本語の文章で、空白がありません。", None),
        ("five words are long enough", None),
    ],
)
def test_which_parts_are_compared(part, what):
    (hashed,) = hashes(part, "lines")
    assert hashed == what if what is not None else hashed > SHORT


@pytest.mark.parametrize(
    ("text", "kind", "dropped", "left"),
    [
        ("a\nb\nc", "lines", [1], "a\nc"),
        ("a\nb\nc", "lines", [0], "b\nc"),
        ("a\nb\nc", "lines", [2], "a\nb"),
        ("a\n\nb", "lines", [0], "b"),
        ("a\nb\n\nc\n \n\nd", "paragraphs", [1], "a\nb\n\nd"),
        ("a\nb\n\nc\n \n\nd", "paragraphs", [2], "a\nb\n\nc"),
        ("a\n\nb", "paragraphs", [0, 1], ""),
    ],
)
def test_what_is_left(text, kind, dropped, left):
    assert remove_segments(text, dropped, kind) == left
