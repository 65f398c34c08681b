"""Lines of a file, which are split a block at a time."""

from __future__ import annotations

import random

import pytest

from beam_jobs.corpus.encodings import UTF8
from beam_jobs.corpus.formats import lines
from beam_jobs.corpus.formats.lines import Line, read_lines
from beam_jobs.corpus.streams import ByteStream, InMemory


def lines_between(data, limit, start, end):
    results = read_lines(ByteStream(InMemory(data)), UTF8, limit, start, end)
    return [(line.offset, line.data if line.size <= limit else None, line.size) for line in results]


@pytest.mark.parametrize("limit", [4, 40, 1 << 20])
@pytest.mark.parametrize("read_bytes", [1, 7, 64, 1 << 18])
def test_splits_have_every_line_once(monkeypatch, limit, read_bytes):
    monkeypatch.setattr(lines, "_READ_BYTES", read_bytes)
    generator = random.Random(read_bytes + limit)
    for _ in range(20):
        sizes = [generator.choice([0, 1, 3, 5, 30, 100]) for _ in range(20)]
        data = b"\n".join(bytes(generator.choices(b"ab \r", k=size)) for size in sizes)
        expected, offset = [], 0
        for line in _split(data):
            expected.append((offset, line if len(line) <= limit else None, len(line)))
            offset += len(line)
        cuts = sorted(generator.choices(range(1, len(data)), k=3))
        parts = zip([0, *cuts], [*cuts, -1], strict=True)
        results = [line for start, end in parts for line in lines_between(data, limit, start, end)]
        assert results == expected


def _split(data):
    parts = data.split(b"\n")
    return [*(part + b"\n" for part in parts[:-1]), *filter(None, parts[-1:])]


def test_a_split_from_the_second_byte_on():
    assert lines_between(b"a\nb\nc\n", 9, 1, -1) == [(2, b"b\n", 2), (4, b"c\n", 2)]


def test_the_last_line_needs_no_end():
    assert lines_between(b"a\nb", 9, 0, -1) == [(0, b"a\n", 2), (2, b"b", 1)]
    assert isinstance(next(read_lines(ByteStream(InMemory(b"a")), UTF8, 9)), Line)


def test_records_of_json_lines_with_anything_between(file, documents):
    lines = [
        b'{"text": "one"}\r\r',
        b" \t\r",
        b"",
        b'"two"',
        b"[]",
        b'{"text": 3}',
        b'\xef\xbb\xbf{"text": "four"}',
        b'{"text": "five", "label": [1]}',
        b"{",
        b'{"text": "six"}',
    ]
    read = documents(file("a.jsonl", b"\n".join(lines)), no_labels=True)
    assert sorted(read.texts.values()) == ["five", "four", "one", "six", "two"]
    assert read.counts == {"no-text": 2, "bad-json": 1}
    originals = [reject.data for reject in read.rejects.values()]
    assert sorted(originals) == [b"[]", b"{", b'{"text": 3}']
