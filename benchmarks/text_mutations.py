"""Ten thousand damaged files of documents: `python -m benchmarks.text_mutations`.

Valid files of every format are created from sentences of the text corpus, a copy of each is damaged
by a seeded random mutation, and `shardmill preprocess text` builds a set of them. Requirements are
checked: no crash, no hang, the ledger adds up, every file has a record in the set or in quarantine,
and quarantined bytes of an uncompressed file occur in it. Results go to
benchmarks/results/text_mutations.json.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import datetime
import gzip
import io
import json
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from benchmarks.damage import MUTATIONS
from benchmarks.measure import machine
from benchmarks.mutations import run_command
from benchmarks.text_corpus import documents
from shard_format import frame, open_index
from shard_format.example import encode_example
from shard_format.schema import Feature, Schema

_HERE = Path(__file__).parent
_PER_FOLDER = 500
_DOCUMENTS = 5  # of a file
_FILES = 6  # of every format; each damaged copy is one of these
_MIB = 1 << 20
_PLAIN = ("txt", "jsonl", "csv", "tsv", "json", "html", "warc")


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


def write_corpus(corpus: Path, count: int, seed: int, damaged: bool = True) -> None:
    """Creates a corpus of damaged files, or valid ones: NUMBER-MUTATION.EXTENSION in folders."""
    draw = random.Random(seed)
    texts = documents(_FILES * _DOCUMENTS * len(FORMATS), seed)
    good = [
        (extension, make([next(texts)[:2000] for _ in range(_DOCUMENTS)]))
        for extension, make in FORMATS.items()
        for _ in range(_FILES)
    ]
    for number in range(count):
        extension, data = draw.choice(good)
        kind = draw.choice(list(MUTATIONS)) if damaged else "none"
        if damaged:
            data = MUTATIONS[kind](draw, data, draw.choice(good)[1])
        if kind == "wrong_extension":
            extension = draw.choice(good)[0]
        folder = corpus / f"part{number // _PER_FOLDER:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06d}-{kind}.{extension}").write_bytes(data)


def build(corpus: Path, out: Path) -> dict[str, object]:
    """Runs the command and checks the ledger; returns counts, time and memory.

    Raises:
        SystemExit: A requirement is not met.
    """
    shutil.rmtree(out, ignore_errors=True)
    options = ["--no-labels", "--dedup", "off", "--out", str(out), "--json"]
    done, peak, seconds = run_command(["preprocess", "text", str(corpus), *options])
    if done.returncode:
        raise SystemExit(f"the build must end well, got {done.returncode}:\n{done.stderr}")
    ledger = json.loads((out / "manifest.json").read_text())["ledger"]
    _check_accounts(ledger, corpus, out)
    return {**ledger, "seconds": round(seconds, 1), "peak_mib": round(peak / _MIB)}


def _check_accounts(ledger: dict[str, int], corpus: Path, out: Path) -> None:
    parts = [ledger[name] for name in ("kept", "duplicates", "filtered", "quarantined")]
    if ledger["read"] != sum(parts):
        raise SystemExit(f"the ledger must add up, got {ledger}")
    files = {path.relative_to(corpus).as_posix(): path for path in corpus.rglob("*.*")}
    seen: set[str] = set()
    for index in (out / "index").glob("*.arrow"):
        seen |= {_file(record, files) for record in open_index(index)["record_id"].to_pylist()}
    quarantined = 0
    for part in sorted((out / "quarantine").glob("*.parquet")):
        for batch in pq.ParquetFile(part).iter_batches(64, columns=["record_id", "bytes"]):
            for row in batch.to_pylist():
                quarantined += 1
                name = _file(row["record_id"], files)
                seen.add(name)
                _check_bytes(name, row["bytes"], files)
    if quarantined != ledger["quarantined"] + ledger["filtered"]:
        raise SystemExit(f"what was refused must be in quarantine, got {quarantined} and {ledger}")
    if missing := sorted(set(files) - seen):
        raise SystemExit(f"{len(missing)} files vanished, for instance {missing[:5]}")


def _file(record_id: str, files: dict[str, Path]) -> str:
    return next(
        (name for name in ("/".join(record_id.split("/")[:2]), record_id) if name in files), ""
    )


def _check_bytes(name: str, data: bytes | None, files: dict[str, Path]) -> None:
    whole = files[name].read_bytes()
    if name.endswith(_PLAIN) and data is not None and data not in whole:
        if whole[:2] not in (b"\x1f\x8b", b"BZ", b"PK", b"\x28\xb5"):
            raise SystemExit(f"what is quarantined of {name} must stand in it")


def main() -> None:
    """Builds both corpora, prints and writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.text_mutations", description=__doc__
    )
    parser.add_argument("--count", type=int, default=10_000, help="damaged files")
    parser.add_argument("--seed", type=int, default=0, help="of the damage")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "text-mutations")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    good, bad = arguments.work / "good", arguments.work / "bad"
    write_corpus(good, arguments.count, arguments.seed, damaged=False)
    write_corpus(bad, arguments.count, arguments.seed)
    results: dict[str, object] = {
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.text_mutations --count {arguments.count} "
        f"--seed {arguments.seed}",
        "undamaged": build(good, arguments.work / "set"),
        "damaged": build(bad, arguments.work / "set"),
    }
    file = _HERE / "results" / "text_mutations.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
