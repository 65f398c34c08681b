"""A record larger than --max-record-bytes is rejected, and its file is read about once."""

from __future__ import annotations

import gzip

import psutil
import pytest

MIB = 1 << 20
LONG = b"word " * (4 * MIB)  # 20 MiB, which are 20 splits of a file of lines
FILES = {
    "a.jsonl": b'{"text": "first"}\n{"text": "%s"}\n{"text": "last"}\n' % LONG,
    "a.csv": b'text,n\nfirst,1\n"%s",2\nlast,3\n' % LONG,
    "a.json": b'{"text": "%s"}\n' % LONG,
    "list.json": b'[{"text": "first"}, {"text": "%s"}]\n' % LONG,
    "a.txt": LONG,
    "lines.txt": b"first\n%s\nlast\n" % LONG,
    "separated.txt": b"first###%s###last" % LONG,
}
OPTIONS = {"lines.txt": {"per_line": True}, "separated.txt": {"separator": "###"}}
KEPT = {
    "a.jsonl": ["first", "last"],
    "a.csv": ["first", "last"],
    "lines.txt": ["first", "last"],
    "separated.txt": ["first", "last"],
}
# Two neighbouring splits read the same bytes, and each a block of 1 MiB more.
MOST_READ = {"list.json": 1.2, "a.json": 1.2, "a.txt": 1.2, "a.csv": 1.3}


@pytest.mark.parametrize("name", FILES)
def test_a_large_record_is_rejected_as_it_is_read(name, file, documents):
    path = file(name, FILES[name])
    process = psutil.Process()
    before = process.io_counters().read_chars
    read = documents(path, no_labels=True, max_record_bytes="1MiB", **OPTIONS.get(name, {}))
    size = process.io_counters().read_chars - before
    assert set(read.counts) == {"file-too-large"} and len(read.rejects) == 1
    assert all(reject.data is None for reject in read.rejects.values())
    assert [text.strip() for text in read.texts.values()] == KEPT.get(name, [])
    assert size < MOST_READ.get(name, 3.2) * len(FILES[name]) + 2 * MIB


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
def test_a_large_record_is_rejected_in_a_compressed_file(name, file, documents):
    path = file(f"{name}.gz", gzip.compress(FILES[name], 1))
    read = documents(path, no_labels=True, max_record_bytes="1MiB")
    assert dict(read.counts) == {"file-too-large": 1}
    assert list(read.texts.values()) == KEPT.get(name, [])


def test_a_large_row_in_utf_16_is_not_kept_in_parts(file, documents):
    rows = 'text,n\nfirst,1\n"' + "word " * MIB + '",2\nlast,3\n'
    read = documents(
        file("a.csv", rows.encode("utf-16")), no_labels=True, encoding="utf-16",
        max_record_bytes="1MiB",
    )  # fmt: skip
    assert dict(read.counts) == {"file-too-large": 1}
    assert [reject.data for reject in read.rejects.values()] == [None]
    assert list(read.texts.values()) == ["first", "last"]


@pytest.mark.parametrize(("size", "is_kept"), [(99, True), (100, True), (101, False)])
def test_the_limit_is_a_record_that_is_still_read(size, is_kept, file, documents):
    lines = f"{'a' * size}\nshort"
    read = documents(file("a.txt", lines), no_labels=True, per_line=True, max_record_bytes="101B")
    assert len(read.texts) == 1 + is_kept and len(read.rejects) == (not is_kept)


def test_columns_are_found_in_front_of_a_large_record(file, documents):
    data = b'{"body": "first", "label": "x"}\n{"body": "%s"}\n' % LONG
    path = file("a.jsonl", data)
    read = documents(path, text_column="body", max_record_bytes="1MiB")
    assert list(read.labels.values()) == ["x"]
    listed = file("b.json", b'[{"body": "first", "label": "x"}, "%s"]' % LONG[: 3 * MIB // 2])
    read = documents(listed, text_column="body", max_record_bytes="1MiB")
    assert dict(read.counts) == {"file-too-large": 1}
