"""WARC files: codings, charsets, damage, and what is no document."""

from __future__ import annotations

import gzip
import random
import zlib

import pyarrow as pa
import pytest

from beam_jobs.corpus.formats.http_response import media_type, parse_response
from beam_jobs.corpus.record import FILTER, Rejection


def record(block, kind="response", mime="application/http; msgtype=response", uri="http://x/"):
    head = f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {uri}\r\nContent-Type: {mime}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(block) + block + b"\r\n\r\n"


def http(body, *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def page(number, size=400):
    noise = random.Random(number).randbytes(size // 2).hex()
    return record(http(f"<p>page {number} {noise}</p>".encode(), "Content-Type: text/html"))


def chunked(data, size=7):
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x;x=y\r\n%s\r\n" % (len(one), one) for one in parts) + b"0\r\n\r\n"


def deflate_raw(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def arrow(codec):
    def pack(data):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    return pack


CODINGS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": deflate_raw,
    "br": arrow("brotli"),
    "zstd": arrow("zstd"),
    "identity": bytes,
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("in_chunks", [False, True])
def test_codings_are_undone(coding, in_chunks):
    body = "ünïcode ".encode() * 40
    packed = CODINGS[coding](body)
    headers = ["Content-Type: text/plain", f"Content-Encoding: {coding.strip()}"]
    if in_chunks:
        packed = chunked(packed)
        headers.append("Transfer-Encoding: chunked")
    assert parse_response(http(packed, *headers), 1 << 20).body == body
    # A crawler that undid them and kept what the server said of them.
    assert parse_response(http(body, *headers), 1 << 20).body == body


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not-http"),
        (http(b"x", "Content-Encoding: secret"), "unknown-coding"),
        (http(gzip.compress(b"x" * 99, mtime=0)[:-9], "Content-Encoding: gzip"), "damaged-record"),
        (http(chunked(b"x" * 99)[:-20], "Transfer-Encoding: chunked"), "damaged-record"),
        (http(b"\xffnot brotli", "Content-Encoding: br"), "damaged-record"),
    ],
)
def test_what_cannot_be_undone(message, reason):
    with pytest.raises(Rejection) as refusal:
        parse_response(message, 1 << 20)
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('text/html; charset="UTF-8"', ("text/html", "UTF-8")),
        ("TEXT/HTML;CHARSET=iso-8859-1;x", ("text/html", "iso-8859-1")),
        ("", ("", "")),
        ("text/html; charset", ("text/html", "")),
        ("x\r\ny", ("x\r\ny", "")),
    ],
)
def test_media_types(value, expected):
    assert media_type(value) == expected


def test_charsets(file, documents):
    word = "Żółć und Größe"
    data = b"".join([
        record(http("Größe".encode("latin-1"), "Content-Type: text/html; charset=iso-8859-1")),
        record(http(b"<meta charset=windows-1250>" + "Żółć".encode("cp1250"),
                    "Content-Type: text/html")),
        record(http(word.encode(), "Content-Type: text/html; charset=iso-8859-1")),
        record(http("漢字".encode("shift_jis"), "Content-Type: text/plain; charset=Shift_JIS")),
        record(http(b"\xff\xfe" + "Größe".encode("utf-16-le"), "Content-Type: text/html")),
        record(http(b"x", "Content-Type: text/html; charset=nonsense")),
    ])  # fmt: skip
    read = documents(file("a.warc", data), no_labels=True)
    texts = list(read.texts.values())
    assert texts == ["Größe", "<meta charset=windows-1250>Żółć", word, "漢字", "Größe", "x"]
    assert [one.encoding for one in read.documents.values()][:2] == ["cp1252", "cp1250"]
    assert [one.is_html for one in read.documents.values()] == [True, True, True, False, True, True]


def test_what_is_no_document(file, documents):
    data = b"".join([
        record(b"software: x", "warcinfo", "application/warc-fields"),
        record(b"GET / HTTP/1.1\r\n\r\n", "request"),
        record(b"x", "metadata"),
        record(http(b""), "revisit"),
        record(b"1.2.3.4", mime="text/dns", uri="dns:example.com"),
        record(b"the text", "conversion", "text/plain"),
        record(b"<p>it", "resource", "text/html"),
        record(http(b"\x89PNG", "Content-Type: image/png")),
        record(http(b"gone", "Content-Type: text/html", status="404 Not Found")),
        record(b"x", "continuation"),
        record(b"x", "unheard-of"),
    ])  # fmt: skip
    read = documents(file("a.warc", data), no_labels=True)
    assert len(read.skipped) == 5
    assert list(read.texts.values()) == ["the text", "<p>it"]
    assert read.counts == {"not-text": 1, "http-status": 1, "segmented-record": 1,
                           "unknown-record": 1}  # fmt: skip
    assert {one.reason for one in read.rejects.values() if one.stage == FILTER} == {
        "not-text", "http-status"
    }  # fmt: skip
    assert all(one.data.startswith(b"WARC/") for one in read.rejects.values())


def test_ignored_records_are_counted(file, build_text):
    data = page(1) + record(b"GET / HTTP/1.1\r\n\r\n", "request") * 3
    report = build_text(file("a.warc", data))
    assert report.ignored == 3 and report.manifest.ledger.read == 1


@pytest.mark.parametrize("harm", ["flip", "cut", "insert", "remove"])
@pytest.mark.parametrize("member", [0, 3, 9])
def test_a_damaged_member_costs_its_record(harm, member, file, documents):
    members = [bytearray(gzip.compress(page(number))) for number in range(10)]
    if harm == "flip":
        members[member][len(members[member]) // 2] ^= 64
    elif harm == "cut":
        del members[member][len(members[member]) // 2 :]
    elif harm == "insert":
        members[member][40:40] = bytes(range(30))
    else:
        del members[member][40:90]
    read = documents(file("a.warc.gz", b"".join(members)), no_labels=True)
    numbers = [int(text.split()[1]) for text in read.texts.values()]
    assert numbers == [number for number in range(10) if number != member]
    assert sum(read.counts.values()) in (1, 2)
    assert any(one.reason == "damaged-stream" and one.data for one in read.rejects.values())


@pytest.mark.parametrize("wrong", [-5, 5, 300, 10**12])
def test_a_wrong_length_costs_its_record(wrong, file, documents):
    pages = [page(number) for number in range(10)]
    size = int(pages[4].split(b"Content-Length: ")[1].split(b"\r\n")[0])
    pages[4] = pages[4].replace(b"Length: %d" % size, b"Length: %d" % (size + wrong))
    read = documents(file("a.warc", b"".join(pages)), no_labels=True)
    numbers = [int(text.split()[1]) for text in read.texts.values()]
    if wrong < 10**12:
        assert numbers == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    else:
        assert numbers == [0, 1, 2, 3]  # too much to be held: what follows cannot be told from it
    assert len(read.rejects) == 1


def test_garbage_between_records(file, documents):
    data = page(0) + b"garbage\nmore\n" * 50 + page(1) + b"\0" * 100
    read = documents(file("a.warc", data), no_labels=True)
    assert len(read.documents) == 2 and set(read.counts) == {"damaged-record"}
    kept = b"".join(one.data for one in read.rejects.values())
    assert kept == b"garbage\nmore\n" * 50 + b"\0" * 100
