"""The sample questions are what samples/SOURCES.md says, faults included."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter

import pytest


@pytest.fixture(scope="module")
def rows(repository):
    """{"train": rows, "test": rows} without their header; Latin-1 reads every byte."""

    def read(name):
        text = (repository / "samples" / "banking" / f"{name}.csv").read_bytes().decode("latin-1")
        header, *lines = csv.reader(io.StringIO(text, newline=""))
        assert header == ["text", "category"]
        return [tuple(row) for row in lines]

    return {name: read(name) for name in ("train", "test")}


def test_counts_are_those_that_are_reported(rows, repository):
    told = (repository / "samples" / "SOURCES.md").read_text(encoding="utf-8")
    numbers = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", told)]
    assert {len(rows["train"]) - 3, len(rows["test"])} <= set(numbers)
    assert len(rows["train"]) - 3 + len(rows["test"]) in numbers
    assert {len(row) for split in rows.values() for row in split} == {2}
    for split in rows.values():
        assert len({intent for _, intent in split}) == 16
    assert set(Counter(intent for _, intent in rows["test"]).values()) == {40}


def test_the_last_three_rows_are_the_faults(rows, repository):
    *own, again, leak, broken = rows["train"]
    assert again in own
    asked = {(text.casefold(), intent) for text, intent in rows["test"]}
    assert (leak[0].strip().casefold(), leak[1]) in asked and leak not in rows["test"]
    assert broken[1] in {intent for _, intent in own}
    data = (repository / "samples" / "banking" / "train.csv").read_bytes()
    with pytest.raises(UnicodeDecodeError) as raised:
        data.decode()
    assert raised.value.start > data.rindex(b"\r\n", 0, len(data) - 2)


def test_the_licence_is_next_to(repository):
    told = (repository / "samples" / "SOURCES.md").read_text(encoding="utf-8")
    for name in re.findall(r"licenses/[\w.-]+", told):
        assert (repository / "samples" / name).stat().st_size > 1000, name
