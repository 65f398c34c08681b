"""Valid files of documents in every format, to be damaged."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from benchmarks.text_corpus import documents
from shard_format import frame
from shard_format.example import encode_example
from shard_format.schema import Feature, Schema

_DOCUMENTS = 5  # of a file
_FILES = 6  # of every format
_CHARACTERS = 2000  # of a document


def _jsonl(texts: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def _delimited(delimiter: str) -> Callable[[list[str]], bytes]:
    def write(texts: list[str]) -> bytes:
        file = io.StringIO()
        rows = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        rows.writerows([["number", "text"], *([number, text] for number, text in enumerate(texts))])
        return file.getvalue().encode()

    return write


def _table(texts: list[str]) -> pa.Table:
    return pa.table({"text": texts, "number": list(range(len(texts)))})


def _parquet(texts: list[str]) -> bytes:
    file = io.BytesIO()
    pq.write_table(_table(texts), file, row_group_size=2)
    return file.getvalue()


def _arrow(texts: list[str]) -> bytes:
    file = io.BytesIO()
    with pyarrow.ipc.new_file(file, _table(texts).schema) as writer:
        writer.write_table(_table(texts), max_chunksize=2)
    return file.getvalue()


def _tfrecord(texts: list[str]) -> bytes:
    schema = Schema("text", (Feature("text", "text"),))
    return b"".join(frame(encode_example(schema, {"text": text})) for text in texts)


def _html(texts: list[str]) -> bytes:
    paragraphs = "".join(f"<p>{line}</p>" for line in texts[0].splitlines())
    return f"<html><head><title>t</title></head><body>{paragraphs}</body></html>".encode()


def _warc_records(texts: list[str]) -> Iterator[bytes]:
    for number, text in enumerate(texts):
        content = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
        content += _html([text])
        head = (
            "WARC/1.0\r\nWARC-Type: response\r\n"
            f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012d}>\r\n"
            "WARC-Date: 2020-01-01T00:00:00Z\r\n"
            f"WARC-Target-URI: http://example.org/{number}\r\n"
            "Content-Type: application/http; msgtype=response\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        yield head.encode() + content + b"\r\n\r\n"


def _tar(texts: list[str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number, text in enumerate(texts):
            info = tarfile.TarInfo(f"{number}.txt")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return file.getvalue()


def _zip(texts: list[str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, text in enumerate(texts):
            archive.writestr(f"{number}.txt", text)
    return file.getvalue()


FORMATS: dict[str, Callable[[list[str]], bytes]] = {
    "txt": lambda texts: texts[0].encode(),
    "html": _html,
    "json": lambda texts: json.dumps([{"text": text} for text in texts]).encode(),
    "jsonl": _jsonl,
    "csv": _delimited(","),
    "tsv": _delimited("\t"),
    "parquet": _parquet,
    "arrow": _arrow,
    "tfrecord": _tfrecord,
    "warc": lambda texts: b"".join(_warc_records(texts)),
    "warc.gz": lambda texts: b"".join(map(gzip.compress, _warc_records(texts))),
    "jsonl.gz": lambda texts: gzip.compress(_jsonl(texts), mtime=0),
    "jsonl.zst": lambda texts: pa.compress(_jsonl(texts), "zstd", asbytes=True),
    "csv.bz2": lambda texts: bz2.compress(_delimited(",")(texts)),
    "tar": _tar,
    "zip": _zip,
}


def good_texts(seed: int) -> list[tuple[str, bytes]]:
    """Returns (extension, bytes) of some files of every format."""
    texts = documents(_FILES * _DOCUMENTS * len(FORMATS), seed)
    return [
        (extension, make([next(texts)[:_CHARACTERS] for _ in range(_DOCUMENTS)]))
        for extension, make in FORMATS.items()
        for _ in range(_FILES)
    ]
