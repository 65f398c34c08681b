"""Damage costs the records that it hits; what was read before stands, the rest is refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import zlib

import orjson
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from beam_jobs.options.formats import formats_of
from shard_format import Feature, Schema, encode_example, frame


def lines(count=4000):
    generator = random.Random(3)
    return [
        orjson.dumps({"text": f"line {number} {generator.getrandbits(400):x}"})
        for number in range(count)
    ]


CODECS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("codec", [*CODECS, "zst"])
def test_a_cut_stream_gives_what_is_before(codec, file, documents):
    data = b"\n".join(lines()) + b"\n"
    if codec == "zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        packed = sink.getvalue().to_pybytes()
    else:
        packed = CODECS[codec](data)
    whole = documents(file(f"a.jsonl.{codec}", packed), no_labels=True)
    assert len(whole.documents) == 4000 and not whole.rejects
    cut = documents(file(f"a.jsonl.{codec}", packed[: len(packed) * 3 // 4]), no_labels=True)
    assert cut.reasons and set(cut.counts) == {"damaged-stream"} and len(cut.rejects) == 1
    names = list(whole.texts)
    assert list(cut.texts) == names[: len(cut.texts)]
    if codec == "gz":
        assert len(cut.texts) > 2900
        # The refused record is the one that was cut, with its beginning.
        name, reject = next(iter(cut.rejects.items()))
        assert name == names[len(cut.texts)]
        assert whole.originals[name].startswith(reject.data)


def test_a_flipped_bit_in_gzip(file, documents):
    data = b"\n".join(lines()) + b"\n"
    packed = bytearray(gzip.compress(data))
    packed[len(packed) // 2] ^= 16
    read = documents(file("a.jsonl.gz", bytes(packed)), no_labels=True)
    assert "damaged-stream" in read.counts
    assert len(read.documents) > 1000
    assert len(read.documents) + len(read.rejects) <= 4001


def test_a_damaged_document_is_refused_with_what_could_be_read(file, documents):
    text = " ".join(f"{zlib.crc32(bytes([n % 256])):x}" for n in range(20000)).encode()
    packed = gzip.compress(text)
    read = documents(file("a.txt.gz", packed[:-9]), no_labels=True)
    (reject,) = read.rejects.values()
    assert reject.reason == "damaged-stream" and text.startswith(reject.data) and reject.data


def test_members_of_a_damaged_archive(file, packed, documents):
    members = {f"{number}.txt": b"document %d " % number * 300 for number in range(20)}
    data = bytearray(packed("zip", members))
    at = data.find(b"document 7") if b"document 7" in data else data.find(b"7.txt") + 9
    data[at] ^= 255
    read = documents(file("a.zip", bytes(data)), no_labels=True)
    assert len(read.documents) == 19 and set(read.counts) <= {"damaged-record", "damaged-stream"}
    data = packed("tar.gz", members)
    read = documents(file("a.tar.gz", data[: len(data) // 2]), no_labels=True)
    assert read.counts["damaged-archive"] == 1
    assert read.documents
    assert all(one.text == members[name.split("/")[1]].decode() for name, one in
               read.documents.items())  # fmt: skip
    data = bytearray(packed("tar", members))
    data[data.find(b"5.txt") + 110] ^= 255  # inside of a header
    read = documents(file("a.tar", bytes(data)), no_labels=True)
    assert len(read.documents) in (19, 18) and "damaged-archive" in read.counts
    gap = next(one for one in read.rejects.values() if one.reason == "damaged-archive")
    assert gap.data


def test_unsafe_and_hidden_members(file, packed, documents):
    members = {"../evil.txt": b"evil", "/abs.txt": b"abs", ".hidden": b"h", "a/.git/x": b"x",
               "a/ok.txt": b"fine"}  # fmt: skip
    for kind in ("tar", "zip"):
        read = documents(file(f"a.{kind}", packed(kind, members)), no_labels=True)
        assert list(read.texts.values()) == ["fine"]
        assert read.counts == {"unsafe-member": 2}
        assert {one.data for one in read.rejects.values()} == {b"evil", b"abs"}
        assert len(read.ignored) == 2


def test_hidden_files_and_unknown_ones(file, documents):
    file(".hidden.txt", "no")
    file("a.txt", "yes")
    file("b.bin", bytes(range(256)) * 4)
    folder = file("c.pdf", b"%PDF-1.7 \xff").parent
    read = documents(folder, no_labels=True)
    assert read.texts == {"a.txt": "yes"}
    assert read.reasons == {"b.bin": "unknown-format", "c.pdf": "unknown-format"}
    assert read.rejects["b.bin"].data == bytes(range(256)) * 4
    assert read.ignored == [".hidden.txt"]


@pytest.mark.parametrize("first", ["[Content_Types].xml", "mimetype"])
def test_the_zip_of_a_program_is_no_archive_of_documents(first, file, packed, documents):
    data = packed("zip-stored", {first: b"application/epub", "content.xml": b"<p>text</p>"})
    read = documents(file("a.docx", data), resolve=False, no_labels=True)
    assert read.reasons == {"a.docx": "unknown-format"}
    assert read.rejects["a.docx"].data == data


def test_an_archive_in_an_archive_is_reported(file, packed, documents):
    inner = packed("zip", {"a.txt": b"x"})
    read = documents(file("a.tar", packed("tar", {"in.zip": inner})), no_labels=True)
    assert read.reasons == {"a.tar/in.zip": "unknown-format"}
    assert read.rejects["a.tar/in.zip"].data == inner


def parquet_bytes(rows=1000):
    table = pa.table(
        {"text": [f"document {number}" * 5 for number in range(rows)], "n": list(range(rows))}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100, write_page_checksum=True)
    return sink.getvalue().to_pybytes()


def test_a_damaged_row_group_costs_its_rows(file, documents):
    data = bytearray(parquet_bytes())
    data[len(data) // 3] ^= 255
    read = documents(file("a.parquet", bytes(data)), no_labels=True)
    assert set(read.counts) == {"damaged-file"}
    assert len(read.documents) >= 800
    whole = documents(file("b.parquet", parquet_bytes()), no_labels=True)
    texts = {name.replace("b.", "a."): text for name, text in whole.texts.items()}
    assert read.texts.items() <= texts.items()
    assert len(documents(file("c.parquet.gz", gzip.compress(parquet_bytes()))).texts) == 1000
    cut = documents(file("d.parquet", parquet_bytes()[:-100]), no_labels=True)
    assert cut.reasons == {"d.parquet": "damaged-file"}
    assert cut.rejects["d.parquet"].data == parquet_bytes()[:-100]


def test_text_in_columns_that_is_no_text(file, documents):
    broken = pa.array([b"good", b"\xff", None, b"fine"], pa.binary())
    text = pa.StringArray.from_buffers(4, broken.buffers()[1], broken.buffers()[2],
                                       broken.buffers()[0])  # fmt: skip
    for name, write in {"a.parquet": pq.write_table, "a.arrow": pa.feather.write_feather}.items():
        path = file(name, b"")
        write(pa.table({"text": text, "n": [1, 2, 3, 4]}), str(path))
        read = documents(path, no_labels=True, keep_columns="n:int64")
        assert list(read.texts.values()) == ["good", "fine"]
        assert list(read.reasons.values()) == ["bad-encoding", "no-text"]
        assert [one.kept for one in read.documents.values()] == [(1,), (4,)]


SCHEMA = Schema("text", (Feature("text", "text"), Feature("label", "bytes")))


def test_tfrecord_files(file, documents):
    frames = [
        frame(
            encode_example(SCHEMA, {"text": f"document {number} é", "label": b"ab"[number % 2 :]})
        )
        for number in range(20)
    ]
    data = b"".join(frames)
    for name, stored in {
        "a.tfrecord": data,
        "b.tfrecord.gz": gzip.compress(data),
        "c.tfrecord": zlib.compress(data),
        "d": data,
    }.items():
        read = documents(file(name, stored))
        assert len(read.documents) == 20, name
        assert read.texts[f"{name}/000000000003"] == "document 3 é"
        assert set(read.labels.values()) == {"ab", "b"}
    flipped = bytearray(data)
    flipped[len(frames[0]) + 20] ^= 1
    read = documents(file("e.tfrecord", bytes(flipped)))
    assert read.reasons == {"e.tfrecord/000000000001": "damaged-record"}
    read = documents(file("f.tfrecord", data[:-3]))
    assert read.reasons == {"f.tfrecord/000000000019": "damaged-file"}
    assert len(read.documents) == 19


@pytest.mark.parametrize("form", sorted(formats_of("text")))
def test_no_mutation_gets_out_as_an_exception(form, file, documents, samples_of):
    data = samples_of(form)
    generator = random.Random(form)
    for turn in range(25):
        mutated = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            at = generator.randrange(len(mutated))
            change = generator.randrange(4)
            if change == 0:
                mutated[at] ^= 1 << generator.randrange(8)
            elif change == 1:
                del mutated[at : at + generator.randint(1, 40)]
            elif change == 2:
                mutated[at:at] = generator.randbytes(generator.randint(1, 20))
            else:
                del mutated[at + 1 :]
        stored = bytes(mutated)
        if turn % 3 == 0:
            stored = gzip.compress(stored)[: None if turn % 2 else -7]
        documents(file(f"{turn}", stored), resolve=False, format=form, no_labels=True)


@pytest.fixture
def samples_of():
    def make(form):
        values = [
            {"text": f"document {number} \u00e9 \u4e16", "label": "a"} for number in range(40)
        ]
        if form == "parquet":
            return parquet_bytes(200)
        if form == "arrow":
            sink = pa.BufferOutputStream()
            table = pa.Table.from_pylist(values)
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=10)
            return sink.getvalue().to_pybytes()
        if form == "tfrecord":
            return b"".join(frame(encode_example(SCHEMA, {**one, "label": b"a"}))
                            for one in values)  # fmt: skip
        if form == "warc":
            body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html><p>text</p></html>"
            head = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\n"
            record = head + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"\r\n\r\n"
            return record * 20
        if form in ("json", "jsonl"):
            rows = [orjson.dumps(one) for one in values]
            return b"[" + b",".join(rows) + b"]" if form == "json" else b"\n".join(rows)
        rows = [f'"{one["text"]}","a"'.encode() for one in values]
        return b"text,label\n" + b"\n".join(rows)

    return make


def test_cells_that_lie_outside_of_their_column(file, documents):
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2**30, 3)))
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    path = file("a.arrow", b"")
    with pa.ipc.new_file(str(path), pa.schema([("text", pa.string())])) as writer:
        writer.write_batch(pa.record_batch([text], names=["text"]))
    read = documents(path, resolve=False, no_labels=True)
    assert list(read.counts) == ["damaged-file"] and not read.documents
