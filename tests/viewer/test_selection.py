"""Filters against a plain reading of every record, page by page."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_format import Feature, Schema
from tests.fixtures.sets import write_shard_set
from viewer.selection import RecordFilter, SelectedRecords
from viewer.viewed_set import ViewedSet

NAMES = ("cat", "dog", "o'x\"")
WORDS = ("", "Some Words", "more words", None, "ß and STRASSE", "a.b")


def _record(number):
    values = {"id": f"{'ab'[number % 2]}/r{number}", "text": f"Text {number} {WORDS[number % 6]}"}
    values["label"] = [n for n in range(3) if number >> n & 1]
    row = {"record_id": values["id"], "size": number, "words": WORDS[number % 6]}
    return values, row


@pytest.fixture(scope="module", params=["text", "image"])
def viewed(request, tmp_path_factory):
    """Of three splits the middle one is empty; several shards, any number of labels."""
    schema = Schema(
        request.param,
        (
            Feature("id", "text"),
            Feature("text", "text"),
            Feature("label", "class_label", (-1,), "", NAMES, late=True),
        ),
    )
    columns = (pa.field("size", pa.int64()), pa.field("words", pa.string()))
    records = [_record(number) for number in range(60)]
    splits = {"train": [records[:30], records[30:40]], "dev": [], "test": [records[40:]]}
    root = tmp_path_factory.mktemp("selection") / "set"
    counts = {name: 1 for name in NAMES}
    statistics = {name: {"class_counts": counts} for name in splits}
    write_shard_set(root, schema, splits, columns, statistics)
    return ViewedSet(root)


def _expected(wanted, in_index):
    for number in range(60):
        values, row = _record(number)
        split = "train" if number < 40 else "test"
        texts = [row["record_id"], row["words"] if in_index else values["text"]]
        has_text = any(re.search(re.escape(wanted.text), one or "", re.I) for one in texts)
        if (
            wanted.split in ("", split)
            and row["record_id"].startswith(wanted.source)
            and (not wanted.label or wanted.label in [NAMES[n] for n in values["label"]])
            and (not wanted.where or number > 17)
            and has_text
        ):
            yield row["record_id"]


FILTERS = st.builds(
    RecordFilter,
    where=st.sampled_from(["", "size > 17"]),
    text=st.sampled_from(["", "WORDS", "a.b", "strasse", "(", "r1", "t 2"]),
    label=st.sampled_from(["", *NAMES]),
    split=st.sampled_from(["", "train", "dev", "test"]),
    source=st.sampled_from(["", "a/", "b/r", "c"]),
)


@given(FILTERS, st.integers(1, 9))
def test_pages_of_a_filter_have_what_fits_once_and_in_order(viewed, wanted, most):
    ids, start = [], 0
    while start is not None:
        if wanted.text and not viewed.searches_index:
            cards, start = viewed.search(wanted, start, most)
        else:
            selection = viewed.select(wanted)
            cards = viewed.cards(selection.places(start, start + most))
            start = start + most if start + most < len(selection) else None
        assert len(cards) <= most
        ids += [card.record_id for card in cards]
    assert ids == list(_expected(wanted, viewed.searches_index))


@given(FILTERS)
def test_neighbours_are_those_of_the_filter(viewed, wanted):
    selection = viewed.select(viewed.indexed(wanted))
    places = selection.places(0, len(selection))
    for at, place in enumerate(places):
        expected = (at, len(places), places[max(0, at - 1) : at], places[at + 1 : at + 2])
        assert selection.around(*place) == expected
    others = {(0, row) for row in range(40)} | {(2, row) for row in range(20)}
    assert all(selection.around(*place) is None for place in others - set(places))


@given(st.lists(st.lists(st.integers(0, 50), unique=True), max_size=4), st.integers(0, 99))
def test_positions_behind_the_end_have_no_records(rows, start):
    selection = SelectedRecords([np.array(sorted(one), np.int64) for one in rows])
    everything = [(split, row) for split, own in enumerate(rows) for row in sorted(own)]
    assert selection.places(start, start + 7) == everything[start : start + 7]


def test_a_hit_is_where_the_text_is(viewed):
    if viewed.searches_index:
        return
    for card in viewed.search(RecordFilter(text="WORDS"), 0, 60)[0]:
        begin, end = card.hit
        assert card.excerpt.text[begin:end].lower() == "words"
