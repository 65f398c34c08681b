"""Ten thousand damaged files: `python -m benchmarks.mutations [--only images|text]`.

Valid files of every format are created, a copy of each is damaged by a seeded random mutation, and
`shardmill preprocess` builds a set of them. Requirements are checked: no crash, no hang, the ledger
adds up, every file has a record in the set or in quarantine, the bytes of every quarantined image
equal its file, and those of a document occur in it.
"""

from __future__ import annotations

import collections
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.corpus import REPOSITORY
from benchmarks.damage import MUTATIONS, good_files
from benchmarks.damaged_texts import good_texts
from benchmarks.measure import parser, write
from shard_format import open_index

_PHOTOGRAPHS = 8  # converted to every format
_PER_FOLDER = 500  # files
_TIMEOUT_SECONDS = 3600  # a build of 10,000 takes a minute or two
_PLAIN = ("txt", "jsonl", "csv", "tsv", "json", "html", "warc")
_COMPRESSED = (b"\x1f\x8b", b"BZ", b"PK", b"\x28\xb5")  # first bytes, which a mutation may bring
# Copies are kept, so that undamaged and damaged builds have the same number of records.
_OPTIONS = {
    "images": ("--source", "class-folders", "--dedup", "off"),
    "text": ("--no-labels", "--dedup", "off"),
}


def good_images(source: Path) -> list[tuple[str, bytes]]:
    """Returns (extension, bytes) of images of a folder in every format."""
    photographs = sorted(path for path in source.rglob("*.jpg") if path.stat().st_size > 2000)
    few = photographs[:: max(1, len(photographs) // _PHOTOGRAPHS)]
    return [(name.split("-")[-1], data) for name, data in good_files(few)]


def write_corpus(
    good: Sequence[tuple[str, bytes]], corpus: Path, count: int, seed: int, damaged: bool = True
) -> dict[str, int]:
    """Creates a corpus of damaged files, or of valid ones, as NUMBER-MUTATION.EXTENSION.

    Args:
        good: Extension and bytes of valid files.
        corpus: A new folder.
        count: Number of files.
        seed: The same seed and valid files give the same bytes.
        damaged: Whether to damage the files.

    Returns:
        The number of files of each mutation.
    """
    draw = random.Random(seed)
    kinds: collections.Counter[str] = collections.Counter()
    for number in range(count):
        extension, data = draw.choice(good)
        kind = draw.choice(list(MUTATIONS)) if damaged else "none"
        if damaged:
            data = MUTATIONS[kind](draw, data, draw.choice(good)[1])
        if kind == "wrong_extension":
            extension = draw.choice(good)[0]
        folder = corpus / f"class{number // _PER_FOLDER:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06d}-{kind}.{extension}").write_bytes(data)
        kinds[kind] += 1
    return dict(sorted(kinds.items()))


def build(record_type: str, corpus: Path, out: Path) -> dict[str, Any]:
    """Runs the command and checks the requirements; returns the ledger and the seconds.

    Raises:
        SystemExit: A requirement is not met.
    """
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "cli.main", "preprocess", record_type, str(corpus)]
    begun = time.perf_counter()
    done = subprocess.run(
        [*command, "--out", str(out), "--json", *_OPTIONS[record_type]],
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"The build ended with {done.returncode}:\n{done.stderr}")
    ledger = json.loads((out / "manifest.json").read_text())["ledger"]
    parts = [ledger[name] for name in ("kept", "duplicates", "filtered", "quarantined")]
    if ledger["read"] != sum(parts):
        raise SystemExit(f"The ledger does not add up: {ledger}.")
    _check_files(ledger, corpus, out, whole=record_type == "images")
    return {**ledger, "seconds": round(seconds, 1)}


def _check_files(ledger: dict[str, int], corpus: Path, out: Path, *, whole: bool) -> None:
    """Checks that every file is in the set or in quarantine, there with its own bytes."""
    files = {path.relative_to(corpus).as_posix(): path for path in corpus.rglob("*.*")}
    seen: set[str] = set()
    for index in (out / "index").glob("*.arrow"):
        seen |= {_file_of(record_id) for record_id in open_index(index)["record_id"].to_pylist()}
    refused = 0
    for row in _quarantined(out):
        refused += 1
        name, data = _file_of(row["record_id"]), row["bytes"]
        seen.add(name)
        content = files[name].read_bytes()
        if whole and data != content:
            raise SystemExit(f"{name} is in quarantine with other bytes.")
        if name.endswith(_PLAIN) and data is not None and data not in content:
            if not content.startswith(_COMPRESSED):
                raise SystemExit(f"What is in quarantine of {name} does not occur in it.")
    if refused != ledger["quarantined"] + ledger["filtered"]:
        raise SystemExit(f"{refused} records are in quarantine, but the ledger has {ledger}.")
    if missing := sorted(set(files) - seen):
        raise SystemExit(f"{len(missing)} files vanished, for instance {missing[:5]}.")


def _file_of(record_id: str) -> str:
    """The file of a record: documents have an id of their own behind it."""
    return "/".join(record_id.split("/")[:2])


def _quarantined(out: Path) -> Iterator[dict[str, Any]]:
    for part in sorted((out / "quarantine").glob("*.parquet")):
        for batch in pq.ParquetFile(part).iter_batches(64, columns=["record_id", "bytes"]):
            yield from batch.to_pylist()


def main() -> None:
    """Builds undamaged and damaged corpora, prints and writes the results."""
    arguments = parser("mutations", __doc__, turns=False)
    arguments.add_argument("--only", choices=_OPTIONS, action="append")
    arguments.add_argument("--photographs", type=Path, default=REPOSITORY / "samples" / "clothing")
    arguments.add_argument("--count", type=int, default=10_000, help="damaged files")
    arguments.add_argument("--seed", type=int, default=0, help="of the damage")
    chosen = arguments.parse_args()
    results: dict[str, Any] = {}
    for record_type in chosen.only or _OPTIONS:
        work = chosen.work / "mutations"
        shutil.rmtree(work, ignore_errors=True)
        is_images = record_type == "images"
        good = good_images(chosen.photographs) if is_images else good_texts(chosen.seed)
        for name, damaged in (("undamaged", False), ("damaged", True)):
            write_corpus(good, work / name, chosen.count, chosen.seed, damaged)
            measures = results[f"{record_type}, {name}"] = build(
                record_type, work / name, work / "set"
            )
            print(record_type, name, measures, flush=True)
    write("mutations", results)


if __name__ == "__main__":
    main()
