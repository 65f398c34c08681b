"""Do models learn from text sets? `python -m benchmarks.train_texts CORPORA`.

CORPORA holds text-movie-reviews, text-banking77 and text-gsm8k. The real commands preprocess each
and train on it, with the defaults of `shardmill train` except for the epochs of the last. Results
go to benchmarks/results/train_texts.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import machine

_HERE = Path(__file__).parent


class Job(NamedTuple):
    """A set and a training.

    Attributes:
        corpus: Folder in CORPORA.
        preprocess: Options of `shardmill preprocess text`.
        train: Options of `shardmill train`.
    """

    corpus: str
    preprocess: tuple[str, ...]
    train: tuple[str, ...] = ()


_VALIDATION = ("--validation-split", "test")  # the last epoch counts, whatever is best
JOBS = (
    Job(
        "text-banking77",
        (
            *("--label-column", "category", "--split", "folders"),
            *("--train-tokenizer", "bpe:4000"),
        ),
    ),
    Job("text-movie-reviews", ("--stratify", "--train-tokenizer", "bpe:8000")),
    Job(
        "text-gsm8k",
        (
            *("--text-column", "question,answer", "--no-labels", "--split", "folders"),
            *("--train-tokenizer", "bpe:4000", "--pack", "256"),
        ),
        ("--epochs", "3"),
    ),
)


def main() -> None:
    """Runs every job, prints and writes the results of the models."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train_texts", description=__doc__)
    parser.add_argument("corpora", type=Path, metavar="CORPORA")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "train", help="scratch")
    parser.add_argument("--only", metavar="NAME", action="append", help="a corpus; repeatable")
    arguments = parser.parse_args()
    file = _HERE / "results" / "train_texts.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    results |= {"machine": machine(), "date": datetime.date.today().isoformat()}
    for job in JOBS:
        if arguments.only and job.corpus not in arguments.only:
            continue
        results[job.corpus] = _learn(job, arguments.corpora / job.corpus, arguments.work)
        print(json.dumps(results[job.corpus], indent=1), flush=True)
        file.write_text(json.dumps(results, indent=1) + "\n")


def _learn(job: Job, corpus: Path, work: Path) -> dict[str, object]:
    shutil.rmtree(work, ignore_errors=True)
    data, run_dir = work / "set", work / "run"
    _shardmill("preprocess", "text", str(corpus), "--out", str(data), *job.preprocess)
    begun = time.perf_counter()
    _shardmill("train", str(data), "--run-dir", str(run_dir), *_VALIDATION, *job.train)
    manifest = json.loads((data / "manifest.json").read_text())
    history = json.loads((run_dir / "history.json").read_text())
    return {
        "preprocess": " ".join(job.preprocess),
        "train": " ".join(job.train),
        "seconds": round(time.perf_counter() - begun, 1),
        "records": {name: split["records"] for name, split in manifest["splits"].items()},
        "majority_class": _majority(manifest),
        "epochs": history,
    }


def _majority(manifest: dict[str, dict[str, dict[str, dict[str, dict[str, int]]]]]) -> float | None:
    """The share of the largest class in the test split."""
    counts = manifest["splits"]["test"]["statistics"].get("class_counts")
    return max(counts.values()) / sum(counts.values()) if counts else None


def _shardmill(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "cli.main", *arguments], check=True)


if __name__ == "__main__":
    main()
