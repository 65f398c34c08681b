"""Foreign text is made visible, once and for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.wording import counted, did_you_mean, format_bytes, shortened, statistic, visible


@given(st.text())
def test_visible_is_printable_and_settled(text):
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    assert not text.isprintable() or shown == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hat/1.jpg", "hat/1.jpg"),
        ("a\x1b[31m", r"a\x1b[31m"),
        ("a\u202eb\u2066", r"a\u202eb\u2066"),
        ("\ud800", r"\ud800"),
        ("line\nbreak", r"line\nbreak"),
        ("\u00e9\u05d0\u4e2d", "\u00e9\u05d0\u4e2d"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown


@given(st.text(max_size=300), st.integers(10, 100))
def test_shortened(text, limit):
    made = shortened(text, limit)
    assert len(made) <= limit
    assert made == text or (made[:3] == text[:3] and made[-3:] == text[-3:] and "..." in made)


def test_numbers():
    assert counted(1, "class", "classes") == "1 class"
    assert counted(1000, "class", "classes") == "1,000 classes"
    assert counted(0, "record") == "0 records"
    assert [format_bytes(n) for n in (0, 1023, 1024, 1 << 50)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1024.0 TiB",
    ]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("padding_share", 0.125, "12.50%"),
        ("coverage", 1.0, "100.00%"),
        ("unknown", 0.5, "50.00%"),
        ("unknown", 1, "1"),
        ("coverage", 7, "7"),
        ("size", 32000, "32,000"),
        ("mean", 1.5, "1.50"),
        ("file", "a\x1b", r"a\x1b"),
        ("odd", True, None),
        ("odd", [1], None),
    ],
)
def test_statistics_of_all_kinds(name, value, words):
    assert statistic(name, value) == words


@pytest.mark.parametrize(
    ("value", "nearest"),
    [("labels", "label"), ("LABEL", "label"), ("val", "validation"), ("v", ""), ("x" * 99, "")],
)
def test_the_nearest_name(value, nearest):
    names = ("label", "validation", "caption")
    assert did_you_mean(value, names) == (f"Did you mean {nearest!r}? " if nearest else "")


@given(st.text(max_size=90), st.lists(st.text(min_size=1, max_size=90), max_size=5))
def test_a_known_name_is_the_nearest(value, names):
    """Names come from the corpus: none breaks the message, and a long one is cut."""
    hint = did_you_mean(value, names)
    assert hint.isprintable() and len(hint) < 700
    assert bool(hint) or value not in names
    assert did_you_mean("", []) == ""
