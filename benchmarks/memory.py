"""Memory of jobs on growing corpora: `python -m benchmarks.memory [--only KIND] [--images N,N...]`.

Images of 32 pixels, all different, or 99 % of them copies; documents in one JSON Lines file, all
different, or 99 % copies, or tiny: of some 32 bytes, so that a file has very many. Every size is
one process, and its memory the greatest sum of the proportional sizes (PSS) of the process tree:
pages that several processes share count once. Pages of files that are mapped count too, though the
system may reclaim them; so what belongs to no file has a column of its own. The target is 1.1 times
the memory for ten times the corpus. Shards have 8 MiB, and so as many rows as those of 128 MiB have
of photographs: the index of a shard is one batch. From some size of the corpus on a job takes
worker processes; `--worker-type` compares like with like. Other programs that have the same
libraries open lower the PSS of these.

Results go to benchmarks/results/memory.json.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import random
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import simplejpeg

from benchmarks.measure import machine, worktree_environment
from benchmarks.text_corpus import documents

_HERE = Path(__file__).parent
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
    """Builds a set of every size, prints a table, writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--images", type=_sizes, default="8400,84000", help="sizes, in images")
    parser.add_argument("--megabytes", type=_sizes, default="200,2000", help="sizes of the text")
    parser.add_argument("--only", choices=_KINDS, action="append")
    parser.add_argument("--shard-size", default="8MiB", help="--shard-size of the jobs")
    parser.add_argument("--workers", type=int, default=2)
    types = "auto", "threads", "processes"
    parser.add_argument("--worker-type", choices=types, default="auto", help="of the jobs")
    parser.add_argument("--repeat", type=int, default=1, help="runs of a size; the median")
    parser.add_argument("--worktree", type=Path, default=_HERE.parent, help="the version that runs")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "memory")
    parser.add_argument("--out", type=Path, default=_HERE / "results" / "memory.json")
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.memory {shlex.join(sys.argv[1:])}".strip(),
        "machine": machine(),
        "kinds": {},
    }
    heads = ("size", 10), ("PSS MiB", 11), ("times", 7), ("no file", 11), ("times", 7)
    print(f"{'kind':<20}" + "".join(f"{head:>{width}}" for head, width in heads) + "  most in")
    for kind in arguments.only or _KINDS:
        sizes = arguments.images if _KINDS[kind][0] == "image" else arguments.megabytes
        found = results["kinds"][kind] = []
        for size in sizes:
            found.append(_measured(kind, size, arguments))
            print(_line(kind, found), flush=True)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {arguments.out}")


def _sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _measured(kind: str, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The middle one of some runs, by its memory."""
    record_type, dedup, corpus = _KINDS[kind]
    work = arguments.work.resolve() / kind.replace(" ", "-")
    shutil.rmtree(work, ignore_errors=True)
    make = _make_images if record_type == "image" else _make_text
    source, runs = make(work / "corpus", size, **corpus), []
    for _ in range(arguments.repeat):
        command = [record_type, source, work / "set", dedup, arguments.workers]
        command += [arguments.shard_size, work / "stage", arguments.worker_type]
        runs.append(_run(command, work / "stage", arguments.worktree.resolve()))
    shutil.rmtree(work)
    runs.sort(key=lambda run: run["peak_mib"])
    return {"size": size, **runs[len(runs) // 2], "peaks_mib": [run["peak_mib"] for run in runs]}


def _run(command: list[object], stage_file: Path, worktree: Path) -> dict[str, Any]:
    """One job; its greatest sizes in MiB, over all and by stage."""
    process = subprocess.Popen(
        # This version of the subject, which imports the packages of the other worktree.
        [sys.executable, "-P", _HERE / "subjects" / "memory_job.py", *map(str, command)],
        stdout=subprocess.PIPE,
        env=worktree_environment(worktree),
    )
    peaks: dict[str, list[float]] = {}
    while process.poll() is None:
        stage = stage_file.read_text() if stage_file.exists() else "start"
        most = peaks.setdefault(stage, [0.0, 0.0])
        for column, size in enumerate(_sizes_of_tree(process.pid)):
            most[column] = max(most[column], round(size / (1 << 20), 1))
        time.sleep(_SAMPLE_SECONDS)
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{command} failed")
    return {
        "peak_mib": max(all_pages for all_pages, _ in peaks.values()),
        "of_no_file_mib": max(own for _, own in peaks.values()),
        "by_stage_mib": peaks,
        **json.loads(output.splitlines()[-1]),
    }


def _sizes_of_tree(pid: int) -> tuple[int, int]:
    """Bytes of a process and its descendants: proportional sizes, and what of them is anonymous."""
    total = own = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(OSError):  # it has ended
                lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
                sizes = {name: int(size.split()[0]) for name, size in (x.split(":") for x in lines)}
                total += sizes["Pss"] << 10
                own += sizes["Pss_Anon"] << 10
    return total, own


def _line(kind: str, found: list[dict[str, Any]]) -> str:
    last, line = found[-1], f"{kind:<20}{found[-1]['size']:>10,}"
    for name in ("peak_mib", "of_no_file_mib"):
        times = f"{last[name] / found[-2][name]:.2f}" if len(found) > 1 else ""
        line += f"{last[name]:>11,.0f}{times:>7}"
    stage = max(last["by_stage_mib"], key=lambda name: last["by_stage_mib"][name][0])
    return f"{line}  {stage}"


def _make_images(folder: Path, count: int, *, copies: bool = False) -> Path:
    """JPEG files of noise in class folders."""
    originals = count // _COPIES if copies else count
    generator, encoded = np.random.default_rng(0), b""
    for number in range(count):
        if number < originals or not copies:
            coarse = generator.integers(0, 256, (_SIDE // 4, _SIDE // 4, 3), np.uint8)
            pixels = np.ascontiguousarray(coarse.repeat(4, 0).repeat(4, 1))
            encoded = simplejpeg.encode_jpeg(pixels, 90)
        path = folder / f"class-{number % _CLASSES}" / f"{number:08d}.jpg"
        if number < _CLASSES:
            path.parent.mkdir(parents=True)
        if number < originals:
            path.write_bytes(encoded)
        else:
            first = number % originals
            path.write_bytes(
                (folder / f"class-{first % _CLASSES}" / f"{first:08d}.jpg").read_bytes()
            )
    return folder


def _make_text(folder: Path, megabytes: int, *, copies: bool = False, lines: int = _LINES) -> Path:
    """One JSON Lines file: lines of real documents, put together anew for each one."""
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
