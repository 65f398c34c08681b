"""Kept columns in the report: the values of every sample, and a summary of every column."""

from __future__ import annotations

import dataclasses

import pytest

from beam_jobs.report import write_report
from shard_format import Feature, Schema, load_manifest, naming

KEPT = (Feature("caption", "text"), Feature("year", "int64"), Feature("score", "float32"))


@pytest.fixture
def annotated(write_records, sets):
    """Writes a set of images or documents with kept columns; a row has the values of a record."""

    def write(rows, kind="image", columns=KEPT, encoding="jpeg", name="set"):
        features = [Feature("id", "text")]
        if kind == "image":
            features.append(Feature("image", "image", (-1, -1, 3), encoding))
        else:
            features.append(Feature("text", "text"))
        label = Feature("label", "class_label", (), "", ("cat", "dog"), late=True)
        records = [
            (
                {"id": f"r{number}", "image": sets.image_bytes(seed=number), "text": "Some words"}
                | {column.name: () for column in columns}  # no value
                | {"label": number % 2}
                | row,
                {},
            )
            for number, row in enumerate(rows)
        ]
        directory = write_records(
            Schema(kind, (*features, *columns, label)), {"train": records}, name=name
        )
        split = load_manifest(directory).splits["train"]
        counts = {
            name: sum(n % 2 == label for n in range(len(rows)))
            for label, name in enumerate(("cat", "dog"))
        }
        split = dataclasses.replace(split, statistics={"class_counts": counts})
        sets.rewrite(directory, splits={"train": split})
        return directory

    return write


@pytest.fixture
def report(page):
    def make(directory):
        parsed = page(write_report(directory).read_text(encoding="utf-8"))
        assert parsed.count("script") == 0
        assert "".join(parsed.text).replace("\n", "").isprintable()
        return parsed

    return make


@pytest.mark.parametrize("kind", ["image", "text"])
def test_values_of_a_sample_are_shown_with_it(annotated, report, kind):
    rows = [{"caption": f"Caption {n}", "year": 2000 + n, "score": n / 4} for n in range(4)]
    words = report(annotated(rows, kind)).sections["samples"]
    for number in range(4):
        values = f"captionCaption {number}year{2000 + number}score{number / 4:.6g}"
        assert values in words


def test_a_column_is_summarized(annotated, report):
    rows = [
        {"caption": "twice" if n < 2 else "a long one", "year": n - 3, "score": 0.5}
        for n in range(9)
    ]
    words = report(annotated([*rows, {}])).sections["columns"]
    assert "Over all 10 records." in words
    assert "caption text90.0%25 to 10 charactersa long one 7twice 2" in words
    assert "year int6490.0%9-3 to 5, mean 1" in words
    assert "score float3290.0%10.5 to 0.5, mean 0.50.5 9" in words


def test_a_missing_value_is_said(annotated, report):
    words = report(annotated([{"caption": "here"}, {}])).sections["samples"]
    assert "captionhereyearno valuescoreno value" in words
    assert "captionno value" in words


def test_columns_that_a_record_type_writes_are_not_kept_ones(annotated, report, tmp_path, sets):
    text = Feature("text", "text")
    page = report(annotated([{"text": "A caption of an image"}], columns=(text,)))
    assert "textA caption of an image" in page.sections["samples"]
    assert "columns" not in report(annotated([{}], "text", columns=(), name="text")).sections
    sets.hand_made(tmp_path / "raw", [("a", 0)], classes=("a",), encoding="raw")
    assert "columns" not in report(tmp_path / "raw").sections  # height and width of raw pixels


def test_values_are_bounded_and_hostile_ones_are_text(annotated, report):
    hostile = ["<script>alert(1)</script>", "\u202eleft", "x" * 100_000, "\x00\x1b[31m", "😀" * 999]
    columns = tuple(Feature(f"<b>{n}", "text") for n in range(40))
    rows = [{column.name: hostile[n % 5] for n, column in enumerate(columns)}] * 12
    directory = annotated(rows, columns=columns)
    parsed = report(directory)
    assert "<script>alert(1)</script>" in parsed.sections["samples"]
    assert parsed.count("b") == 0
    assert "x" * 100 not in "".join(parsed.text)
    assert "6 of 40 kept columns" in parsed.sections["samples"]
    assert (directory / naming.REPORT).stat().st_size < 200_000


def test_the_summary_reads_a_bounded_number_of_records(annotated, report, monkeypatch):
    directory = annotated([{"year": n} for n in range(30)], "text")
    monkeypatch.setattr("beam_jobs.report.sections.kept_columns._MOST_RECORDS", 20)
    words = report(directory).sections["columns"]
    assert "Over the first 20 of 30 records in shuffled order." in words
    assert "0 to 19, mean 9.5" in words
    monkeypatch.setattr("beam_jobs.report.sections.kept_columns._MOST_BYTES", 1)
    assert "Over the first 1 of 30 records" in report(directory).sections["columns"]


def test_numbers_that_are_not_finite(annotated, report):
    scores = [float("nan"), float("inf"), -1.5]
    words = report(annotated([{"score": score} for score in scores])).sections["columns"]
    assert "-1.5 to -1.5, mean -1.5" in words


def test_packed_sequences_have_no_kept_columns(packed_set, report):
    directory = packed_set(8, train=[[[1, 2, 3]]])
    assert "columns" not in report(directory).sections
