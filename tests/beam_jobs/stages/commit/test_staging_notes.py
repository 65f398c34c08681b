"""Notes on what staging counted: HTML tags in text, kept columns without a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from beam_jobs.options import TextOptions
from beam_jobs.run import BuildReport, preprocess

Job = Callable[..., BuildReport]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Builds a set of JSON lines."""

    def run(rows: Iterable[dict[str, Any]], out: str = "set", **options: Any) -> BuildReport:
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        values = {"workers": 1, "no_report": True} | options
        return preprocess(TextOptions((str(path),), str(tmp_path / out), **values))

    return run


def test_tags_that_cleaning_leaves_are_counted(job: Job) -> None:
    texts = [f"Film {n} is x<y.<br /><br />It was good." for n in range(3)]
    rows = [{"text": text} for text in [*texts, "a <user> and List<String>", "a < b"]]
    note = "3 of 5 texts have HTML tags, such as <br />; --clean tags,{} removes them"
    assert job(rows).build["notes"] == [note.format("default")]
    steps = "nfc,length:min_words=1"
    assert job(rows, "other", clean=steps).build["notes"] == [note.format(steps)]
    for clean in ("tags,default", "none"):
        assert job(rows, clean.replace(",", "-"), clean=clean).build["notes"] == []
    few = [*rows[:1], *({"text": f"Number {n}"} for n in range(200))]
    assert job(few, "few").build["notes"] == []


def test_a_kept_column_that_some_records_lack_is_counted(job: Job) -> None:
    rows = [{"text": f"Number {n}", "by": "me", **({"at": "x"} if n else {})} for n in range(4)]
    report = job([*rows, {"text": "Number 5", "at": None, "by": ""}], keep_columns="at,by")
    assert report.build["notes"] == [
        "--keep-columns at: 2 of 5 records have no value, and store an empty text",
        "--keep-columns by: 1 of 5 records have no value, and store an empty text",
    ]
