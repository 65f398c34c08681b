"""What went wrong once with documents, found by people who tried to break it."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from beam_jobs.corpus.encodings import decode
from beam_jobs.corpus.formats.html import decode_page
from beam_jobs.corpus.formats.http_response import media_type
from beam_jobs.corpus.record import Rejection
from beam_jobs.options import TextOptions
from beam_jobs.quarantine import replay_options
from beam_jobs.run import preprocess
from cli.commands.quarantine import replay
from shard_format import InputError, UsageError
from shard_format.dropped import read_rejected

_SENTENCE = "The quick brown fox number {} jumps over the lazy dog and runs to the old barn."


def job(source, out, **options):
    values = {"workers": 1, "no_report": True} | options
    return preprocess(TextOptions((str(source),), str(out), **values))


@pytest.fixture
def lines(tmp_path):
    """Ten documents as JSON Lines."""
    path = tmp_path / "corpus.jsonl"
    rows = [{"text": _SENTENCE.format(number), "label": "ab"[number % 2]} for number in range(10)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_a_replay_takes_the_encoding_of_documents(tmp_path):
    """It took those of images alone, though a refusal says that --encoding auto may help."""
    context = replay.make_context("replay", [str(tmp_path), "--encoding", "auto"])
    assert context.params["encoding"] == "auto"


def test_a_replay_refuses_options_of_other_records(lines, tmp_path):
    """They were ignored, and the set was built again as it was."""
    job(lines, tmp_path / "set")
    with pytest.raises(UsageError, match="--lenient"):
        replay_options(tmp_path / "set", None, (), {"lenient": True})


def test_a_number_is_not_read_across_underscores(tmp_path):
    """A kept "2020_01" became 202001, as Python reads its own numbers."""
    texts = [_SENTENCE.format(number) for number in range(2)]
    rows = [
        {"text": text, "year": year} for text, year in zip(texts, ("2020_01", "7"), strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for kind in ("int64", "float32"):
        report = job(tmp_path / "a.jsonl", tmp_path / kind, keep_columns=f"year:{kind}")
        assert report.manifest.ledger.reasons == {"bad-value": 1}


def test_a_source_without_documents_is_reported_no_option_of_images(tmp_path):
    """It was advised to say --labels FILE, which a job on documents does not have."""
    (tmp_path / "data.bin").write_bytes(bytes(range(256)) * 20)
    with pytest.raises(InputError, match="no-class-folder") as raised:
        job(tmp_path / "data.bin", tmp_path / "set")
    assert "--image-column" not in str(raised.value)


@pytest.mark.parametrize("charset", ["a\0b", "\ud800", "unicode_escape", "raw_unicode_escape"])
def test_a_page_may_declare_any_charset(charset):
    """One page of a crawl whose server sent a zero in it ended the job with a traceback."""
    page = rb"<p>A caf\xe9 in C:\u0041".replace(rb"\xe9", b"\xe9")
    assert decode_page(page, charset) == ("<p>A caf\u00e9 in C:\\u0041", "cp1252")


@pytest.mark.parametrize("part", ["charset*0*=a'b'c; charset*=", f"charset*{'9' * 5000}=a"])
def test_a_server_may_number_parameters_in_any_way(part):
    """Likewise with a parameter in parts of which one has no number."""
    assert media_type(f"text/html; {part}") == ("text/html", "")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_an_arrow_file_with_impossible_places_is_refused(tmp_path, kind):
    """Only the first and last were looked at; one between them made the worker read anywhere."""
    texts = [_SENTENCE.format(number) for number in range(100)]
    column = pa.array(texts).cast(kind)
    table = pa.table({"text": column, "label": ["a"] * 100})
    path = tmp_path / "a.arrow"
    feather.write_feather(table, path, compression="uncompressed")
    data = bytearray(path.read_bytes())
    offsets = column.buffers()[1].to_pybytes()
    width = 8 if kind == pa.large_string() else 4
    at = data.index(offsets[: 101 * width]) + 50 * width
    data[at : at + width] = (1 << 30).to_bytes(width, "little")
    path.write_bytes(data)
    report = job(path, tmp_path / "set", label_column="label", keep_empty=True)
    assert report.manifest.ledger.reasons == {"damaged-file": 1}


@pytest.mark.parametrize(("kind", "reasons"), [("text", {}), ("int64", {"bad-value": 1})])
def test_columns_are_kept_next_to_plain_text(tmp_path, kind, reasons):
    """A text file among files with columns ended the job with a traceback."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.jsonl").write_text(json.dumps({"text": _SENTENCE.format(1), "year": 1999}))
    (corpus / "b.txt").write_text(_SENTENCE.format(2))
    report = job(corpus, tmp_path / "set", no_labels=True, keep_columns=f"year:{kind}")
    assert report.manifest.ledger.reasons == reasons


def test_a_mark_in_a_value_stays(tmp_path):
    """Of Parquet, Arrow and TFRecord it was taken away as if a file began there."""
    marked = f"\ufeff{_SENTENCE.format(1)}"
    parquet.write_table(pa.table({"text": [marked]}), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": f"{marked} Again."}))
    job(tmp_path / "a.parquet", tmp_path / "a", clean="none", split="train=1", no_labels=True)
    job(tmp_path / "b.jsonl", tmp_path / "b", clean="none", split="train=1", no_labels=True)
    for name in "ab":
        (shard,) = (tmp_path / name).glob("text-train*")
        assert marked.encode() in shard.read_bytes()


def test_utf16_that_is_read_as_utf8_is_reported_of_the_other_way():
    """Lines of it have zeros, and were called no text without a way out."""
    text = f"{_SENTENCE.format(1)}\n{_SENTENCE.format(2)}\n"
    with pytest.raises(Rejection, match="--encoding auto"):
        decode(text.encode("utf-16-le"), "utf-8")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"text,b\n"),
        ("a.tsv", b'[{"text": "a list of JSON, which is no table"}]'),
        ("a.jsonl", b"\n \n"),
        ("a.json", b"[]"),
        ("a.csv.gz", gzip.compress(b"text\n", mtime=0)),
    ],
)
def test_a_file_without_a_document_does_not_vanish(tmp_path, name, data):
    source = tmp_path / "corpus"
    source.mkdir()
    (source / name).write_bytes(data)
    (source / "b.jsonl").write_text('{"text": "one"}\n')
    report = job(source, tmp_path / "set", no_labels=True)
    assert report.manifest.ledger.kept == 1
    assert report.manifest.ledger.reasons == {"no-documents": 1}
    ((record, original),) = read_rejected(tmp_path / "set", report.manifest)
    assert (record.record_id, original.as_py()) == (name, data)
