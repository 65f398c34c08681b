"""The report of text sets: what is on it, and that no document gets out of its place."""

from __future__ import annotations

import json
import re

import pytest

from beam_jobs.report import write_report
from shard_format import DamageError, load_manifest, naming, open_index

TEXT_SECTIONS = "set ledger classes samples sizes languages duplicates quarantine throughput"
HOSTILE = [
    "<script>alert(1)</script>",
    "</p></div></section></body><style>*{display:none}</style>",
    "&lt;b&gt; \"'`> onmouseover=alert(1)",
    "right\u202eto left \u2066isolated \u200f mark",
    "nul \x00 escape \x1b[31m bell \x07 \ufeff \ufff9",
    "x" * 1_000_000,
    "y \n" * 100_000,
    "Z" + "\u0335\u0321\u0489" * 2000,
    "line \u2028 paragraph \u2029 form \x0c feed \x85",
    "javascript:alert(1) https://example.com/",
]


@pytest.fixture
def build_text(tmp_path):
    """Builds a text set from values of JSON Lines, or from lines as bytes."""
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    def build(lines, out="set", **options):
        source = tmp_path / f"{out}-source"
        source.mkdir()
        rows = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        (source / "corpus.jsonl").write_bytes(b"".join(row + b"\n" for row in rows))
        defaults = {"workers": 1, "no_report": True, "label_column": "label", "keep_empty": True}
        preprocess(
            TextOptions(sources=(str(source),), out=str(tmp_path / out), **(defaults | options))
        )
        return tmp_path / out

    return build


@pytest.fixture
def report(page):
    """The page of a set, parsed."""

    def make(directory):
        parsed = page(write_report(directory).read_text(encoding="utf-8"))
        assert parsed.count("script") == parsed.count("img") == 0
        words = "".join(parsed.text)
        assert words.replace("\n", "").isprintable()
        return parsed

    return make


def rows(count=60):
    for number in range(count):
        words = " ".join(f"word{number * 31 + at}" for at in range(5 + number))
        yield {"text": f"Document {number}.\nIt says {words}", "label": f"c{number % 3}"}


def test_sections_are_those_of_documents(build_text, report):
    parsed = report(build_text(rows()))
    assert [name for name in parsed.sections if name] == TEXT_SECTIONS.split()
    assert parsed.attributes("href") == [f"#{name}" for name in TEXT_SECTIONS.split()]
    for drawing in (attrs for tag, attrs in parsed.elements if tag == "svg"):
        assert drawing["aria-label"] and drawing["role"] == "img"


def test_numbers_are_those_of_the_set(build_text, report):
    lines = [*rows(), next(rows()), b'{"text": "caf\xe9", "label": "c0"}', b"{", {"text": "x y"}]
    lines += [{"text": "Tiny", "label": "c1"}]
    directory = build_text(lines, clean="length:min_chars=8", split="train=0.5,test=0.5")
    manifest, words = load_manifest(directory), report(directory).sections
    train = manifest.splits["train"]
    assert f"Over the {train.records} records of split train" in words["sizes"]
    for name in ("chars", "words"):
        numbers = train.statistics[name]
        spread = f"{numbers['min']:,} to {numbers['max']:,}, mean {numbers['mean']:,.0f}"
        assert spread in words["sizes"]
    counts = [f"{len(open_index(directory / naming.index_file(s)))}" for s in manifest.splits]
    assert f"utf-8{counts[0]}{counts[1]}" in words["languages"]
    assert "No cleaning step detected languages" in words["languages"]
    assert "1filtered" in words["set"] and "1duplicate" in words["set"]
    for reason, count in manifest.ledger.reasons.items():
        assert f"{reason} {count}" in words["quarantine"]
    assert '{"text": "caf\\xe9", "label": "c0"}' in words["quarantine"]
    assert '{"text": "Tiny", "label": "c1"}' in words["quarantine"]


def test_samples_are_the_beginnings_of_documents(build_text, report):
    directory = build_text(rows())
    words = report(directory).sections["samples"]
    index = open_index(directory / naming.index_file("train"))
    for label, name in enumerate(("c0", "c1", "c2")):
        own = index.filter(index["label"].to_numpy() == label)
        first = own["record_id"][0].as_py()
        assert name in words and first in words
    assert len(re.findall(r"Document \d+\.It says", words)) == 6


def test_documents_that_are_alike_stand_together(build_text, report):
    lines = [*rows(20), {"text": "document 3.\nit SAYS " + _words(3), "label": "other"}]
    lines += [{"text": "Document 4.\nIt says " + _words(4), "label": "c1"}] * 9
    words = report(build_text(lines)).sections["duplicates"]
    assert words.startswith("Duplicates2 clusters: 10 exact duplicates")
    assert words.index("other label: ") < words.index("Document 4.")  # contradictory ones first
    assert "and 3 more" in words
    assert words.count("Document 4.") == 1 + 6  # the kept one, and those that are shown
    assert len(re.findall("kept in (train|test)", words)) == 2


def _words(number):
    return " ".join(f"word{number * 31 + at}" for at in range(5 + number))


def test_hostile_documents_are_text_in_their_place(build_text, report):
    lines = [{"text": text, "label": name} for text in HOSTILE for name in ("<b>", "a\u202e")]
    # As bytes every line of it would be an own record that is no JSON.
    lines += [text.encode() for text in HOSTILE if text.count("\n") < 10]
    directory = build_text(lines, clean="none", split="train=0.9,test=0.1")
    parsed = report(directory)
    assert {"samples", "duplicates", "quarantine"} <= set(parsed.sections)
    words = "".join(parsed.text)
    assert words.count("<script>alert(1)") >= 1 and "display:none" in words
    assert "x" * 501 not in words
    assert r"right\u202eto left \u2066isolated \u200f mark" in words
    assert r"nul \x00 escape \x1b[31m bell \x07 \ufeff \ufff9" in words
    assert parsed.count("style") == 1
    assert not [name for _, attrs in parsed.elements for name in attrs if name.startswith("on")]
    assert (directory / naming.REPORT).stat().st_size < 300_000


def test_what_was_not_selected(build_text, report):
    lines = [{"text": text, "label": "a", "note": text} for text in HOSTILE]
    lines += [{"text": "chosen", "label": "b", "note": f"{n}"} for n in range(3)]
    options = {"clean": "none", "dedup": "off"}
    chosen = {
        "keep_columns": "note",
        "where": "label == 'b' and note != '0'",
        "top": "1",
        "by": "words",
    }
    parsed = report(build_text(lines, **options, **chosen))
    words = parsed.sections["selection"]
    assert f"{len(HOSTILE) + 1} records left out by --where" in words
    assert "1 record left out by --top 1 --by words" in words
    assert r"right\u202eto left" in words and "<script>alert(1)" in words
    assert parsed.count("script") == 0 and parsed.count("style") == 1
    assert "selection" not in report(build_text(rows(), out="all", **options)).sections


def test_lines_and_blanks_of_a_document_are_kept(build_text, report):
    persian = "\u0645\u06cc\u200c\u062e\u0648"  # a joiner between letters, as it is written
    texts = ["first\r\n\n\nsecond\tcolumn", "日本\u3000語", "مرحبا\nhello", persian, "a\u200cb"]
    lines = [{"text": text} for text in texts]
    options = {"clean": "none", "split": "train=1.0", "no_labels": True, "label_column": None}
    text = write_report(build_text(lines, **options)).read_text(encoding="utf-8")
    assert '<p dir="auto">first</p><p dir="auto">second column</p>' in text
    assert '<p dir="auto">日本 語</p>' in text
    assert '<p dir="auto">مرحبا</p><p dir="auto">hello</p>' in text
    assert persian in text
    assert r"a\u200cb" in text  # here it hides


def test_documents_that_are_too_large_have_no_excerpt(build_text, report, monkeypatch):
    directory = build_text(rows())
    monkeypatch.setattr("beam_jobs.report.previews._MOST_RECORD_BYTES", 200)
    words = report(directory).sections["samples"]
    assert 1 <= words.count("no excerpt") < 6
    assert words.count("no excerpt") + len(re.findall(r"Document \d+\.", words)) == 6


def test_originals_that_are_no_text(build_text, report):
    lines = [*rows(9), bytes(range(128, 256)) * 4, b"\x00\x01" * 40]
    words = report(build_text(lines, format="jsonl")).sections["quarantine"]
    assert "not text; it begins with" in words and "80 81 82" in words


def test_no_labels(build_text, report):
    parsed = report(build_text(rows(), label_column=None, no_labels=True))
    assert "have no labels" in parsed.sections["classes"]
    assert parsed.sections["samples"].count("Document") == 8


def test_nothing_was_kept(build_text, report):
    parsed = report(build_text([b"{"], no_labels=True, label_column=None))
    assert "There are no documents" in parsed.sections["samples"]
    assert "There are no records" in parsed.sections["sizes"]


def test_the_same_set_gives_the_same_bytes(build_text):
    directory = build_text(rows())
    first = write_report(directory).read_bytes()
    assert first == write_report(directory).read_bytes()


def test_a_damaged_shard_is_damage(build_text):
    directory = build_text(rows(), split="train=1.0")
    (shard,) = directory.glob("*train*")
    data = bytearray(shard.read_bytes())
    for position in range(30, len(data), 50):
        data[position] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DamageError, match=shard.name):
        write_report(directory)
