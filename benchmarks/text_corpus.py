"""The corpus of the text benchmarks: documents of real sentences, with some duplicates."""

from __future__ import annotations

import csv
import io
import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.corpus import REPOSITORY

# 1,000 film reviews if the developers' corpora are next to the repository, else the samples.
_REVIEWS = REPOSITORY.parent / "shared" / "corpora" / "text-movie-reviews"
_SAMPLES = REPOSITORY / "samples" / "banking"
_LINES = (12, 60)  # of a document
_EXACT, _NEAR = 0.02, 0.05  # shares of documents that repeat an earlier one
_CHANGED_WORDS = 0.01  # of a near duplicate


def sentences() -> list[str]:
    """The distinct lines of the corpus, sorted."""
    lines: set[str] = set()
    if _REVIEWS.is_dir():
        for path in sorted(_REVIEWS.glob("*/*.txt")):
            lines |= set(path.read_text(errors="replace").splitlines())
    else:
        for path in sorted(_SAMPLES.glob("*.csv")):
            with path.open(newline="", errors="replace") as file:
                lines |= {row[0] for row in csv.reader(file)}
    return sorted(line.strip() for line in lines if len(line) > 20)


def documents(count: int, seed: int = 0) -> Iterator[str]:
    """Documents of sampled sentences; a share of them are duplicates of earlier ones."""
    generator, lines = random.Random(seed), sentences()
    recent: list[str] = []
    for _ in range(count):
        drawn = generator.random()
        if recent and drawn < _EXACT:
            yield generator.choice(recent)
            continue
        if recent and drawn < _EXACT + _NEAR:
            yield _changed(generator.choice(recent), generator)
            continue
        text = "\n".join(generator.choices(lines, k=generator.randint(*_LINES)))
        recent = [*recent[-999:], text]
        yield text


def _changed(text: str, generator: random.Random) -> str:
    words = text.split(" ")
    for _ in range(max(1, round(len(words) * _CHANGED_WORDS))):
        words[generator.randrange(len(words))] = f"word{generator.randrange(10**6)}"
    return " ".join(words)


def make_jsonl(folder: Path, count: int) -> Path:
    """One JSON Lines file of `count` documents, created once and reused."""
    path, done = folder / f"{count}.jsonl", folder / f"{count}.complete"
    if done.exists() and path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for number, text in enumerate(documents(count)):
            file.write(json.dumps({"text": text, "id": number}) + "\n")
    done.touch()
    return path


def make_reviews(folder: Path, gigabytes: float, chars: int) -> Path:
    """One JSON Lines file: documents of about `chars` characters, cut from whole reviews."""
    path = folder / f"reviews-{gigabytes}-{chars}.jsonl"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    lines, generator = sentences(), random.Random(2)
    draft, written = path.with_suffix(".draft"), 0
    with draft.open("w") as file:
        while written < gigabytes * 1e9:
            text = ""
            while len(text) < chars:
                text += f"{generator.choice(lines)}\n"
            written += file.write(json.dumps({"text": text}) + "\n")
    draft.rename(path)
    return path


def make_packed(source: Path, kind: str) -> Path:
    """A file of JSON Lines as CSV, or compressed: "gz", "bgzf" (as bgzip does), "zst"; reused."""
    name = {"csv": ".csv", "bgzf": ".bgzf.jsonl.gz"}.get(kind, f".jsonl.{kind}")
    path = source.with_name(f"{source.stem}{name}")
    if path.exists():
        return path
    draft = path.with_suffix(".draft")
    with source.open("rb") as file, draft.open("wb") as sink:
        if kind == "csv":
            text = io.TextIOWrapper(sink, "utf-8", newline="")
            csv.writer(text).writerows([["text"], *([json.loads(line)["text"]] for line in file)])
            text.flush()
        elif kind == "bgzf":
            while data := file.read(60_000):
                sink.write(_bgzip_block(data))
        else:
            stream = pa.CompressedOutputStream(sink, {"gz": "gzip", "zst": "zstd"}[kind])
            while data := file.read(1 << 20):
                stream.write(data)
            stream.close()
    draft.rename(path)
    return path


def _bgzip_block(data: bytes) -> bytes:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    header = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\6\0BC\2\0" + struct.pack("<H", len(body) + 25)
    return header + body + struct.pack("<2I", zlib.crc32(data), len(data))


def make_large_jsonl(folder: Path, bytes_wanted: int) -> Path:
    """One JSON Lines file of at least so many bytes: documents repeated, each with its number."""
    path, done = folder / f"{bytes_wanted}.jsonl", folder / f"{bytes_wanted}.complete"
    if done.exists() and path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    pool = list(documents(5000))
    generator, written, number = random.Random(1), 0, 0
    with path.open("w") as file:
        while written < bytes_wanted:
            lines = generator.choice(pool).split("\n")
            generator.shuffle(lines)
            text = f"document {number} .\n" + "\n".join(lines)
            written += file.write(json.dumps({"text": text}) + "\n")
            number += 1
    done.touch()
    return path
