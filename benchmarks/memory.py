"""Memory of jobs on growing corpora: `python -m benchmarks.memory [--only KIND]`.

Images of 32 pixels, all different, or 99 % of them copies; documents in one JSON Lines file, all
different, or 99 % copies, or tiny: of some 32 bytes, so that a file has very many. Each size is a
subject, and memory its proportional size (PSS). Shards have 8 MiB, and so as many rows as those of
128 MiB have of photographs: the index of a shard is one batch. From some size of the corpus on a
job takes worker processes; `--worker-type` compares like with like. Other programs that have the
same libraries open lower the PSS of these.
"""

from __future__ import annotations

import functools
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg

from beam_jobs.memory import SYSTEM_POOL_VARIABLE
from benchmarks.measure import parser, run, take_turns, write
from benchmarks.text_corpus import documents

_SAMPLE_SECONDS = 0.05
_SIDE = 32
_CLASSES = 10
_COPIES = 100  # records with the same content where 99 % are duplicates
_POOL = 2000  # documents, whose lines are put together anew
_LINES = 8  # of a document, below its first one
# By kind: the record type, --dedup, and how its corpus is made.
_KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "images": ("image", "exact", {}),
    "duplicate images": ("image", "exact", {"copies": True}),
    "images, near": ("image", "near", {}),
    "documents": ("text", "exact", {}),
    "tiny documents": ("text", "exact", {"lines": 0}),
    "duplicate documents": ("text", "exact", {"copies": True}),
    "documents, near": ("text", "near", {}),
}


def main() -> None:
    """Builds sets of every size in turns, prints tables, writes the results."""
    arguments = parser("memory", __doc__)
    arguments.add_argument("--images", type=_sizes, default="8400,84000", help="sizes in images")
    arguments.add_argument("--megabytes", type=_sizes, default="200,2000", help="sizes of the text")
    arguments.add_argument("--only", choices=_KINDS, action="append")
    types = "auto", "threads", "processes"
    arguments.add_argument("--worker-type", choices=types, default="auto", help="of the jobs")
    arguments.add_argument("--worktree", type=Path, help="the version that runs")
    chosen = arguments.parse_args()
    results = {}
    for kind in chosen.only or _KINDS:
        record_type, dedup, corpus = _KINDS[kind]
        work = chosen.work / "memory"
        shutil.rmtree(work, ignore_errors=True)
        further = (
            {"resize": "none"}
            if record_type == "image"
            else {"text_column": "text", "clean": "nfc"}
        )
        options = {
            "dedup": dedup,
            "workers": 2,
            "shard_size": "8MiB",
            "worker_type": chosen.worker_type,
        }
        make = _make_images if record_type == "image" else _make_text
        sizes = chosen.images if record_type == "image" else chosen.megabytes
        subjects = {
            str(size): functools.partial(
                run,
                "shardmill_build",
                record_type,
                make(work / str(size), size, **corpus),
                work / "set",
                json.dumps(options | further),
                worktree=chosen.worktree,
                variables=SYSTEM_POOL_VARIABLE,  # as the command line
                sample_seconds=_SAMPLE_SECONDS,
            )
            for size in sizes
        }
        results[kind] = take_turns(kind, subjects, chosen.turns)
        write("memory", results)
        shutil.rmtree(work)


def _sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _make_images(folder: Path, count: int, *, copies: bool = False) -> Path:
    """Makes JPEG files of noise in class folders."""
    originals = count // _COPIES if copies else count
    generator = np.random.default_rng(0)
    for number in range(count):
        path = _image(folder, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        if number >= originals:
            path.write_bytes(_image(folder, number % originals).read_bytes())
            continue
        coarse = generator.integers(0, 256, (_SIDE // 4, _SIDE // 4, 3), np.uint8)
        pixels = np.ascontiguousarray(coarse.repeat(4, 0).repeat(4, 1))
        path.write_bytes(simplejpeg.encode_jpeg(pixels, 90))
    return folder


def _image(folder: Path, number: int) -> Path:
    return folder / f"class-{number % _CLASSES}" / f"{number:08d}.jpg"


def _make_text(folder: Path, megabytes: int, *, copies: bool = False, lines: int = _LINES) -> Path:
    """Makes one JSON Lines file: lines of real documents, put together anew for each one."""
    folder.mkdir(parents=True)
    generator, pool = random.Random(0), [text.split("\n") for text in documents(_POOL)]
    originals: list[str] = []
    written = 0
    with (folder / "corpus.jsonl").open("w") as file:
        while written < megabytes * 1_000_000:
            if copies and written >= megabytes * 1_000_000 / _COPIES:
                written += file.write(generator.choice(originals))
                continue
            drawn = generator.sample(pool[generator.randrange(_POOL)], lines)
            text = f"document {generator.getrandbits(64)} .\n" + "\n".join(drawn)
            line = json.dumps({"text": text}) + "\n"
            written += file.write(line)
            if copies:
                originals.append(line)
    return folder


if __name__ == "__main__":
    main()
