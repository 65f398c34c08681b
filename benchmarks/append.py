"""What appending costs, against building again: `python -m benchmarks.append --kind images`.

One percent of a corpus is appended to a set of the rest; the other subject builds all of it. Both
are processes of the command line, imports included. The target is 3 %.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from simplejpeg import encode_jpeg

from benchmarks.corpus import photographs
from benchmarks.measure import machine
from benchmarks.text_corpus import documents

_HEIGHT, _WIDTH, _QUALITY = 300, 400, 90  # some 30 kB with noise
_DOCUMENTS_PER_FILE = 10_000
_OPTIONS = {
    "images": ("--resize", "shorter:256"),
    "text": ("--no-labels", "--text-column", "text"),
}


class Taken(NamedTuple):
    """Seconds of a command, on the clock and on all cores."""

    wall: float
    cpu: float


def make_images(folder: Path, count: int) -> Path:
    """`count` different JPEG in ten class folders: photographs with noise, made once."""
    done = folder / "complete"
    if done.exists() and done.read_text() == str(count):
        return folder / "corpus"
    shutil.rmtree(folder, ignore_errors=True)
    generator = np.random.default_rng(0)
    noise = generator.normal(0, 5, (2 * _HEIGHT, 2 * _WIDTH, 3)).astype(np.float32)
    pixels = [
        cv2.resize(cv2.imread(str(path))[:, :, ::-1], (_WIDTH, _HEIGHT))
        for path in photographs()[:200]
    ]
    for number in range(count):
        top, left = generator.integers(0, _HEIGHT), generator.integers(0, _WIDTH)
        moved = noise[top : top + _HEIGHT, left : left + _WIDTH]
        image = np.clip(pixels[number % len(pixels)] + moved, 0, 255).astype(np.uint8)
        path = folder / "corpus" / _part(number, count) / f"class-{number % 10}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_jpeg(image, _QUALITY))
    done.write_text(str(count))
    return folder / "corpus"


def make_texts(folder: Path, count: int) -> Path:
    """`count` documents in JSON Lines, with some duplicates; made once."""
    done = folder / "complete"
    if done.exists() and done.read_text() == str(count):
        return folder / "corpus"
    shutil.rmtree(folder, ignore_errors=True)
    numbered = enumerate(documents(count))
    for part, group in itertools.groupby(numbered, key=lambda one: _part(one[0], count)):
        (folder / "corpus" / part).mkdir(parents=True)
        rest = iter(group)
        for file in itertools.count():
            rows = list(itertools.islice(rest, _DOCUMENTS_PER_FILE))
            if not rows:
                break
            lines = (json.dumps({"text": text, "id": number}) for number, text in rows)
            (folder / "corpus" / part / f"{part}-{file:05d}.jsonl").write_text("\n".join(lines))
    done.write_text(str(count))
    return folder / "corpus"


def _part(number: int, count: int) -> str:
    """The last percent is appended."""
    return "new" if number >= count - max(1, count // 100) else "old"


def preprocess(kind: str, out: Path, *arguments: object) -> Taken:
    """Runs `shardmill preprocess`."""
    command = [sys.executable, "-m", "cli.main", "preprocess", kind, *map(str, arguments)]
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [*command, "--out", str(out), "--no-report", "--json"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(time.perf_counter() - begun, cpu)


def main() -> None:
    """Prints the share, and writes all runs as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=tuple(_OPTIONS), default="images")
    parser.add_argument("--count", type=int, default=100_000, help="1,000,000 for text")
    parser.add_argument("--dedup", choices=("exact", "near", "off"), default="exact")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/shardmill-append"))
    parser.add_argument("--result", type=Path, help="JSON file to write")
    asked = parser.parse_args()
    folder = asked.folder / f"{asked.kind}-{asked.count}"
    corpus = (make_images if asked.kind == "images" else make_texts)(folder, asked.count)
    options = (*_OPTIONS[asked.kind], "--dedup", asked.dedup)
    out = {name: folder / f"set-{name}" for name in ("base", "rebuilt", "appended")}
    for place in out.values():
        shutil.rmtree(place, ignore_errors=True)
    preprocess(asked.kind, out["base"], corpus / "old", *options)
    runs: dict[str, list[Taken]] = {"rebuild": [], "append": []}
    for turn in range(asked.repeat):
        shutil.rmtree(out["rebuilt"], ignore_errors=True)
        shutil.rmtree(out["appended"], ignore_errors=True)
        shutil.copytree(out["base"], out["appended"])
        sources = (corpus / "old", corpus / "new")
        runs["rebuild"].append(preprocess(asked.kind, out["rebuilt"], *sources, *options))
        runs["append"].append(preprocess(asked.kind, out["appended"], sources[1], "--append"))
        shown = {name: taken[-1] for name, taken in runs.items()}
        print(f"turn {turn + 1}/{asked.repeat}  {shown}", flush=True)
    pairs = list(zip(runs["append"], runs["rebuild"], strict=True))
    found = {
        "kind": asked.kind,
        "count": asked.count,
        "dedup": asked.dedup,
        "share_of_time": statistics.median(one.wall / two.wall for one, two in pairs),
        "share_of_cpu": statistics.median(one.cpu / two.cpu for one, two in pairs),
        "runs": {name: [one._asdict() for one in taken] for name, taken in runs.items()},
        "machine": machine(),
    }
    print(json.dumps({name: found[name] for name in ("share_of_time", "share_of_cpu")}))
    if asked.result:
        asked.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
