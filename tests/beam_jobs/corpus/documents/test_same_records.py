"""The records of a file do not depend on where it is cut, nor on what it is packed in."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import random

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.corpus import listing, streams
from beam_jobs.corpus.formats import delimited, lines
from beam_jobs.corpus.formats.base import FilePart
from beam_jobs.corpus.reading import read_part
from beam_jobs.corpus.record import Locator
from beam_jobs.corpus.streams import ByteStream, FileRange
from beam_jobs.options import TextOptions
from beam_jobs.options.formats import FORMATS
from beam_jobs.text.extractor import TextExtractor
from tests.fixtures.proofs import examples

MIB = 1 << 20


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


CODECS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: "\0" not in text
)
LINE = TEXT.map(lambda text: text.replace("\n", " ").replace("\r", " "))


class Memory(streams.RawStream):
    """Bytes that come in small and odd pieces."""

    def __init__(self, data):
        super().__init__()
        self._file, self._turn = io.BytesIO(data), 0

    def more(self, size):
        self._turn += 1
        return self._file.read(min(size, 1 + self._turn * 7 % 13))

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        self._pushed = b""
        return self._file.seek(offset, whence)

    def tell(self):
        return self._file.tell() - len(self._pushed)


def outcomes(data, form, start=0, end=-1, **options):
    job = TextOptions(("x",), "out", no_labels=True, **options)
    part = FilePart(
        "f",
        lambda: Memory(data),
        locator=Locator(start=start, end=end, seek=start),
    )
    results = [
        (one.record_id, _original(one), _outcome(one))
        for one in read_part(part, FORMATS[form].load()(job, TextExtractor(job)), {})
    ]
    # Of a whole file without a document the file itself is rejected.
    return [one for one in results if one[2][:1] != ("no-documents",)]


def _original(result):
    return result.rejection.data if hasattr(result, "rejection") else result.original


def _outcome(result):
    if hasattr(result, "rejection"):
        rejection = result.rejection
        return rejection.reason, rejection.detail, rejection.data
    return result.payload or (result,)


@settings(max_examples=examples(150))
@given(
    st.lists(st.one_of(LINE, st.just("{"), st.just("")), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.lists(st.integers(1, 60), max_size=4),
    st.sampled_from(["utf-8", "utf-16", "utf-16-le", "utf-32", "cp037"]),
)
def test_lines_do_not_depend_on_cuts(lines, newline, ends, cuts, encoding):
    text = newline.join(lines) + (newline if ends else "")
    data = text.encode(encoding, "replace")
    options = {"per_line": True, "encoding": encoding}
    whole = outcomes(data, "txt", **options)
    edges = sorted({0, *(4 * cut for cut in cuts)})
    parts = [
        outcomes(data, "txt", start, end, **options)
        for start, end in zip(edges, [*edges[1:], -1], strict=True)
    ]
    assert [one for part in parts for one in part] == whole
    results = [one[2] for one in whole]
    if encoding != "cp037" and all(isinstance(one, str) for one in results):
        expected = [line.rstrip("\r") for line in text.split("\n")]
        first = expected[0].removeprefix("\ufeff") if encoding.startswith("utf-") else expected[0]
        # Lines of UTF-8 are blank by their bytes: one of no-break spaces is a record.
        blank = [line for line in expected if not line.strip()]
        if first == expected[0] and not any(line.encode().strip() for line in blank):
            assert results == [line for line in expected if line.strip()]


@settings(max_examples=examples(100))
@given(st.lists(st.one_of(TEXT, st.none(), st.integers(0, 9)), max_size=10), st.lists(
    st.integers(1, 300), max_size=4))  # fmt: skip
def test_json_lines_do_not_depend_on_cuts(values, cuts):
    data = b"".join(
        orjson.dumps({"text": one}) + b"\n" if one is not None else b'{"broken\n' for one in values
    )
    whole = outcomes(data, "jsonl")
    edges = sorted({0, *cuts})
    parts = [
        outcomes(data, "jsonl", start, end)
        for start, end in zip(edges, [*edges[1:], -1], strict=True)
    ]
    assert [one for part in parts for one in part] == whole
    assert len(whole) == len(values)
    assert [one[2] for one in whole if isinstance(one[2], str)] == [
        one for one in values if isinstance(one, str) and one
    ]
    for record_id, original, _ in whole:
        start = int(record_id.split("/")[1])
        assert data[start : start + len(original)] == original or not original


@settings(max_examples=examples(100))
@given(st.lists(st.lists(TEXT.filter(str.strip), min_size=3, max_size=3), max_size=8))
def test_csv_gives_back_what_was_written(rows):
    sink = io.StringIO(newline="")
    csv.writer(sink, quoting=csv.QUOTE_ALL).writerows([["text", "b", "c"], *rows])
    data = sink.getvalue().encode()
    whole = outcomes(data, "csv", keep_columns="b,c")
    assert [one[2] for one in whole] == [row[0] for row in rows]
    assert b"".join(one[1] for one in whole) == data[len(b'"text","b","c"\r\n') :]


FIELDS = st.sampled_from(
    ["x", "", "a b", '"y\n"', '"z,"', '"q""\r\n"', '""', '"\r"', '"w\n\n,"', "\u00e9"]
)
# What makes rows malformed at most places.
SLIPS = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from(['"', "\r", 'a"', '"b', ' "', "\n"]))
)


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(FIELDS, FIELDS).map(",".join), max_size=14),
    st.sampled_from(["\n", "\r\n"]),
    st.one_of(st.just([]), SLIPS),
    st.lists(st.integers(1, 150), max_size=8),
    st.sampled_from([1, 3, 5, 64]),
    st.sampled_from([14, 25, 1000]),
)
def test_csv_does_not_depend_on_cuts(rows, newline, slips, cuts, block, limit):
    text = newline.join(rows) + newline
    for place, slip in slips:
        text = text[:place] + slip + text[place:]
    data = b"text,label\n" + text.encode()
    options = {"max_record_bytes": f"{limit}B"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_SCANNED_BYTES", block)
        wanted = sorted({0, *(cut for cut in cuts if cut < len(data))})
        starts = delimited.row_starts(ByteStream(Memory(data)), wanted, ",", limit)
    if starts is None:
        assert slips or len(data) > limit
        return
    whole = outcomes(data, "csv", **options)
    parts = [
        outcomes(data, "csv", start, end, **options)
        for start, end in zip(starts, [*starts[1:], -1], strict=True)
    ]
    assert [one for part in parts for one in part] == whole


@pytest.mark.parametrize("block", [1, 2, 1000])
@pytest.mark.parametrize(
    "rows",
    ['x "a"\n', '"a" x\n', "a\rb\n", "a\r", '"a\n', 'a"\n"b\n', f"{'x' * 100}\n", f'"{"x" * 100}'],
)
def test_csv_that_is_not_well_formed_is_not_split(rows, block, monkeypatch):
    monkeypatch.setattr(delimited, "_SCANNED_BYTES", block)
    for before in ("", "p,q\n", '"p\n","q"\n'):
        stream = ByteStream(Memory((before + rows).encode()))
        assert delimited.row_starts(stream, [0, 3], ",", 100) is None
        stream = ByteStream(Memory((before + "p,q\n").encode()))
        assert delimited.row_starts(stream, [0, 3], ",", 100) is not None


def test_a_large_csv_is_split_where_rows_begin(file, documents, monkeypatch):
    rows = [
        (f'{number}, "so"\nto say' * (1 + number % 40), str(number % 7)) for number in range(900)
    ]
    sink = io.StringIO(newline="")
    csv.writer(sink).writerows([("text", "label"), *rows])
    data = sink.getvalue().encode()
    monkeypatch.setattr(listing, "_MIN_SPLIT_BYTES", 1000)
    monkeypatch.setattr(listing, "_MIN_READ_BYTES", 1000)
    monkeypatch.setattr(lines, "_MIN_SPLIT_BYTES", 1 << 14)
    read = documents(file("a/t.csv", data))
    assert len(read.items) > 10
    assert list(read.texts.values()) == [text for text, _ in rows]
    assert list(read.labels.values()) == [label for _, label in rows]
    monkeypatch.undo()
    whole = documents(file("b/t.csv", data))
    assert len(whole.items) == 1 and whole.documents == read.documents
    assert whole.originals == read.originals and list(whole.documents) == list(read.documents)
    monkeypatch.setattr(listing, "_MIN_SPLIT_BYTES", 1000)
    monkeypatch.setattr(listing, "_MIN_READ_BYTES", 1000)
    monkeypatch.setattr(lines, "_MIN_SPLIT_BYTES", 1 << 14)
    for broken in (data + b'"never closed\n', data + b'5" disk,1\n', b"text,text\n" + data):
        assert len(documents(file("c/t.csv", broken), label_column=None, no_labels=True).items) == 1


@settings(max_examples=examples(100))
@given(st.recursive(
    st.one_of(TEXT, st.integers(-(2**53), 2**53), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
), st.integers(0, 4))  # fmt: skip
def test_json_lists_are_split_where_their_parser_does(value, indent):
    import json

    values = value if isinstance(value, list) else [value]
    data = json.dumps(values, indent=indent, ensure_ascii=bool(indent)).encode()
    results = outcomes(data, "json")
    assert [orjson.loads(one[1]) for one in results] == values


@settings(max_examples=examples(60))
@given(st.lists(TEXT, max_size=6), st.sampled_from(["\\n--\\n", "\\t", "§§"]))
def test_separators(texts, separator):
    meant = separator.replace("\\n", "\n").replace("\\t", "\t")
    texts = [one.replace(meant[0], "") for one in texts]
    results = outcomes(meant.join(texts).encode(), "txt", separator=separator)
    expected = [one for one in texts if one.strip()]
    if not meant.join(texts).startswith("\ufeff"):
        assert [one[2] for one in results] == expected


def _corpus():
    lines = b"".join(
        orjson.dumps({"text": f"line {number} " + "x" * (number % 700), "label": str(number % 3)})
        + b"\n"
        for number in range(300)
    )
    rows = b"text,label\r\n" + b"".join(
        b'"row %d,\n""quoted""",%d\r\n' % (number, number % 3) for number in range(100)
    )
    return {"a.jsonl": lines, "b.csv": rows, "c/d.jsonl": lines[: len(lines) // 2]}


def _outcomes(read, prefix=""):
    return {
        name.removeprefix(prefix): (document, read.originals[name])
        for name, document in read.documents.items()
    } | {name.removeprefix(prefix): reject for name, reject in read.rejects.items()}


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "zip", "zip-stored", "zip-bz2"])
def test_packing_changes_no_record(kind, file, packed, documents):
    corpus = _corpus()
    for name, data in corpus.items():
        path = file(f"plain/{name}", data)
    plain = documents(path.parents[1])
    archive = file("packed", packed(kind, corpus))
    read = documents(archive)
    assert _outcomes(read, "packed/") == _outcomes(plain)
    assert len(plain.documents) > 400


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_compression_changes_no_record(codec, file, packed, documents):
    corpus = _corpus()
    for name, data in corpus.items():
        plain_path = file(f"plain/{name}", data)
        path = file(f"packed/{name}", CODECS[codec](data))
    plain = documents(plain_path.parents[1])
    assert _outcomes(documents(path.parents[1])) == _outcomes(plain)
    # And compressed files in an archive.
    members = {f"{name}.{codec}": CODECS[codec](data) for name, data in corpus.items()}
    read = documents(file("all.zip", packed("zip", members)))
    results = {name.replace(f".{codec}/", "/"): one for name, one in read.texts.items()}
    assert results == {f"all.zip/{name}": one for name, one in plain.texts.items()}


def test_a_huge_file_is_cut_by_its_size_alone(file, documents, monkeypatch):
    line = orjson.dumps({"text": "x" * 3000}) + b"\n"
    path = file("a.jsonl", line * 1800)
    assert path.stat().st_size > 5 * MIB
    read = documents(path)
    assert [item.size for item in read.items[:-1]] == [MIB] * 5
    assert sum(item.size for item in read.items) == path.stat().st_size
    assert list(read.documents) == [
        f"a.jsonl/{at:012d}" for at in range(0, len(line) * 1800, len(line))
    ]
    # A record that is longer than a stretch.
    path = file("b.jsonl", line + orjson.dumps({"text": "y" * 3 * MIB}) + b"\n" + line)
    read = documents(path)
    assert len(read.items) == 4
    assert list(read.documents) == [
        "b.jsonl/000000000000", f"b.jsonl/{len(line):012d}",
        f"b.jsonl/{path.stat().st_size - len(line):012d}",
    ]  # fmt: skip


def test_a_stream_can_be_looked_at_first(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(200)))
    with ByteStream(FileRange(bytes(tmp_path / "a"))) as file:
        assert file.head(10) == bytes(range(10))
        assert file.head(50) == bytes(range(50))
        assert file.read() == bytes(range(200))
    with ByteStream(FileRange(bytes(tmp_path / "a"), 20, 30)) as file:
        assert file.head(100) == bytes(range(20, 50))
        assert file.seek(5) == 5
        assert file.read(2) == bytes([25, 26])


def test_a_large_parquet_is_cut_by_row_groups(file, documents):
    generator = random.Random(1)
    table = pa.table({"text": [f"{generator.getrandbits(8000):x}" for _ in range(15_000)]})
    path = file("a.parquet", b"")
    pq.write_table(table, path, row_group_size=700)
    read = documents(path)
    assert len(read.items) > 2
    assert list(read.texts.values()) == table["text"].to_pylist()
    assert list(read.texts) == [f"a.parquet/{row:012d}" for row in range(15_000)]
    packed = documents(file("b.parquet.gz", gzip.compress(path.read_bytes(), 1)))
    assert list(packed.texts.values()) == table["text"].to_pylist() and len(packed.items) == 1
