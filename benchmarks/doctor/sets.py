"""The shard sets of the benchmark, each built once by `shardmill preprocess`."""

from __future__ import annotations

import csv
import random
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image

from benchmarks.corpus import REPOSITORY, make_corpus, photographs

_LARGE = 1600  # pixels of the shorter side: the least of a phone's photographs
_LARGE_COUNT = 240
_COUNT = 560  # as many as the developers' corpus has
_TEXTS = 1200
_MOST_LINES = 100  # of a text; as many texts have 1 to 10 as have 10 to 100


def corpus(name: str, work: Path) -> tuple[str, Path]:
    """("images" or "text", folder with the raw files), created if missing."""
    if name == "photographs":
        return "images", make_corpus(work / "corpus", _COUNT)
    if name == "large":
        return "images", _large(work / "large")
    return "text", _texts(work / "texts")


def build(source: str, options: str, work: Path, out: Path | None = None) -> Path:
    """A set of a corpus, preprocessed with these options; a finished one is reused."""
    kind, raw = corpus(source, work)
    named = "-".join(shlex.split(options)).replace("/", "-").replace(":", "")
    out = out or work / f"set-{source}{named}"
    if not (out / "manifest.json").exists():
        shutil.rmtree(out, ignore_errors=True)
        given = shlex.split(options)
        subprocess.run(
            [
                *(sys.executable, "-m", "cli.main", "preprocess", kind, str(raw)),
                *("--out", str(out), "--dedup", "off", "--no-report", *given),
            ],
            check=True,
            capture_output=True,
        )
    return out


def _large(folder: Path) -> Path:
    """Images as large as those of a phone, enlarged from the small ones of the corpus."""
    done = folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        for number, path in enumerate(photographs()[:_LARGE_COUNT]):
            image = Image.open(path).convert("RGB")
            ratio = _LARGE / min(image.size)
            size = (round(image.width * ratio), round(image.height * ratio))
            target = folder / "photos" / path.parent.name / f"{number:06d}.jpg"
            target.parent.mkdir(parents=True, exist_ok=True)
            image.resize(size, Image.Resampling.BICUBIC).save(target, quality=90)
        done.touch()
    return folder / "photos"


def _texts(folder: Path) -> Path:
    """Texts in two classes, of questions to a bank: many short ones, some long ones."""
    done = folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        with (REPOSITORY / "samples" / "banking" / "test.csv").open(
            newline="", encoding="latin-1"
        ) as file:
            questions = [row[0] for row in csv.reader(file)]
        generator = random.Random(0)
        for number in range(_TEXTS):
            lines = generator.choices(questions, k=round(_MOST_LINES ** generator.random()))
            target = folder / "texts" / f"class{number % 2}" / f"{number}.txt"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("\n".join(lines))
        done.touch()
    return folder / "texts"
