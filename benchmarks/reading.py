"""Reading: `python -m benchmarks.reading [--peers PYTHON] [--only cold|warm|turns]`.

The same images, randomly cropped to 224 and mirrored, in batches of 64, uint8: by a hand-tuned
tf.data chain, by this reader, by TFDS, and, with --peers, by WebDataset and MosaicML Streaming.
Cold: the files are evicted from the page cache before every run. Turns: warm, in ten turns of three
seconds that subjects take from each other, for ratios of a few percent. The last two libraries use
PyTorch and run in their own environment:

    python -m venv peers
    peers/bin/pip install -r benchmarks/requirements-peers.txt

Results go to benchmarks/results/reading.json.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import json
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.corpus import make_corpus
from benchmarks.interleaved import opened
from benchmarks.interleaved import take_turns as take_short_turns
from benchmarks.measure import Run, Subjects, machine, run, take_turns
from benchmarks.page_cache import drop, fill

_HERE = Path(__file__).parent
_SAMPLE_SECONDS = 0.25  # memory grows slowly here, and each sample takes CPU time
_TUNED = "hand-tuned tf.data"  # the first: ratios are to it


class Subject(NamedTuple):
    """A measured program.

    Attributes:
        module: The module in benchmarks/subjects.
        data: The form of the set that it reads: a key of the result of `_make_sets`.
        arguments: The arguments between the folder and the seconds.
        peer: Whether it runs in the environment of the peers.
    """

    module: str
    data: str
    arguments: tuple[str, ...]
    peer: bool = False


SUBJECTS = {
    _TUNED: Subject("hand_tuned_read", "shardmill", ("same",)),
    "tf.data of tutorials": Subject("hand_tuned_read", "shardmill", ("plain",)),
    "reader, window": Subject("shardmill_read", "shardmill", ("window", "off")),
    "reader, full": Subject("shardmill_read", "shardmill", ("full", "off")),
    "reader, off": Subject("shardmill_read", "shardmill", ("off", "off")),
    "reader, window, memory": Subject("shardmill_read", "shardmill", ("window", "memory")),
    "reader, full, memory": Subject("shardmill_read", "shardmill", ("full", "memory")),
    "TFDS": Subject("tfds_read", "shardmill", ("tutorial",)),
    "TFDS, tuned": Subject("tfds_read", "shardmill", ("tuned",)),
    "TFDS, SkipDecoding": Subject("tfds_read", "shardmill", ("skip",)),
    "WebDataset": Subject("webdataset_read", "webdataset", ("pil",), peer=True),
    "WebDataset, OpenCV": Subject("webdataset_read", "webdataset", ("tuned",), peer=True),
    "MosaicML Streaming": Subject("mosaicml_read", "mosaicml", ("pil",), peer=True),
    "MosaicML Streaming, OpenCV": Subject("mosaicml_read", "mosaicml", ("tuned",), peer=True),
}

# In short turns, where all are open at once.
_IN_TURNS = (_TUNED, "reader, window", "reader, full", "reader, off")

# Required ratios, in addition to those to the hand-tuned chain: one subject to another.
RATIOS = (
    ("reader, window", _TUNED),
    ("reader, window", "TFDS"),
    ("reader, window", "TFDS, tuned"),
    ("reader, window", "TFDS, SkipDecoding"),
    ("reader, window", "WebDataset"),
    ("reader, window", "WebDataset, OpenCV"),
    ("reader, window", "MosaicML Streaming"),
    ("reader, window", "MosaicML Streaming, OpenCV"),
    ("reader, window", "reader, off"),
    ("reader, full", "reader, off"),
)


def main() -> None:
    """Runs everything, prints tables, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--photographs", type=int, default=67_200)
    parser.add_argument("--seconds", type=float, default=12, help="on the clock of each run")
    parser.add_argument("--repeat", type=int, default=3, help="turns; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    parser.add_argument("--only", choices=["cold", "warm", "turns"], action="append")
    parser.add_argument("--turns", type=int, default=10, help="of a subject, in the state turns")
    parser.add_argument("--turn-seconds", type=float, default=3)
    parser.add_argument("--subject", choices=SUBJECTS, action="append", help="only these")
    parser.add_argument("--peers", metavar="PYTHON", help="the interpreter that has the peers")
    parser.add_argument("--out", type=Path, default=_HERE / "results" / "reading.json")
    arguments = parser.parse_args()
    names = arguments.subject or list(SUBJECTS)
    chosen = {name: SUBJECTS[name] for name in names if arguments.peers or not SUBJECTS[name].peer}
    sets = _make_sets(arguments.work, arguments.photographs, arguments.peers)
    records = _records(sets["shardmill"])
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.reading {shlex.join(sys.argv[1:])}".strip(),
        "machine": machine(),
        "versions": _versions(arguments.peers),
        "records": records,
        "megabytes": {name: round(_bytes(folder) / 1e6, 1) for name, folder in sets.items()},
    }
    before = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    states = arguments.only or ["cold", "warm", "turns"]
    if "turns" in states:
        names = arguments.subject or _IN_TURNS
        results["turns"] = _in_turns(sets, {name: SUBJECTS[name] for name in names}, arguments)
        arguments.out.write_text(json.dumps(before | results, indent=1) + "\n")
    for state in states:
        if state == "turns":
            continue
        subjects: Subjects = {
            name: functools.partial(
                _read,
                subject,
                sets[subject.data],
                state,
                arguments.seconds,
                records if state == "cold" else 0,
                arguments.peers if subject.peer else sys.executable,
            )
            for name, subject in chosen.items()
        }
        found = take_turns(state, subjects, arguments.repeat)
        results[state] = found
        results[f"{state}, ratios"] = _ratios(found)
        _print_details(state, found, results[f"{state}, ratios"])
        arguments.out.write_text(json.dumps(before | results, indent=1) + "\n")
    print(f"written to {arguments.out}")


def _in_turns(
    sets: dict[str, Path], subjects: dict[str, Subject], arguments: argparse.Namespace
) -> dict[str, Any]:
    """All subjects at once, warm, in short turns."""
    with contextlib.ExitStack() as stack:
        readers = {}
        for name, subject in subjects.items():
            folder = sets[subject.data]
            fill([path for path in sorted(folder.rglob("*")) if path.is_file()])
            python = arguments.peers if subject.peer else sys.executable
            command = (subject.module, folder, *subject.arguments, 0)
            readers[name] = stack.enter_context(opened(command, python))
        return take_short_turns(readers, arguments.turns, arguments.turn_seconds)


def _read(
    subject: Subject, folder: Path, state: str, seconds: float, most: int, python: str
) -> Run:
    """One run, after the files were evicted from memory or loaded into it."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    (drop if state == "cold" else fill)(files)
    return run(
        subject.module,
        folder,
        *subject.arguments,
        seconds,
        most,
        python=python,
        sample_seconds=_SAMPLE_SECONDS,
    )


def _make_sets(work: Path, photographs: int, peers: str | None) -> dict[str, Path]:
    """Folder by form of the set; existing ones are reused."""
    root = work / f"reading-{photographs}"
    sets = {name: root / name for name in ("shardmill", "webdataset", "mosaicml")}

    def made(name: str, make: Callable[[Path], Run]) -> None:
        if not (root / f"{name} is complete").exists():
            print(f"{name}: {make(sets[name])}", flush=True)
            (root / f"{name} is complete").touch()

    def build(out: Path) -> Run:
        corpus = work / f"corpus-{photographs}"
        try:
            return run("shardmill_preprocess", make_corpus(corpus, photographs), out, "off")
        finally:
            shutil.rmtree(corpus)

    made("shardmill", build)
    if peers is None:
        return {"shardmill": sets["shardmill"]}
    made("webdataset", lambda out: run("write_tars", sets["shardmill"], out))
    made("mosaicml", lambda out: run("write_mds", sets["webdataset"], out, python=peers))
    return sets


def _records(folder: Path) -> int:
    manifest = json.loads((folder / "manifest.json").read_text())
    return int(manifest["splits"]["train"]["records"])


def _bytes(folder: Path) -> int:
    """The records of the training split."""
    return sum(
        path.stat().st_size
        for pattern in ("*-train.tfrecord-*", "*.tar", "*.mds")
        for path in folder.glob(pattern)
    )


def _versions(peers: str | None) -> dict[str, str]:
    """The versions of the packages that read."""
    wanted = {
        sys.executable: ("tensorflow", "tensorflow-datasets", "numpy"),
        peers: ("torch", "torchvision", "webdataset", "mosaicml-streaming", "pillow"),
    }
    found: dict[str, str] = {}
    for python, packages in wanted.items():
        if python is None:
            continue
        code = (
            "import json, sys; from importlib.metadata import version; "
            "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
        )
        done = subprocess.run([python, "-c", code, *packages], capture_output=True, check=True)
        found |= json.loads(done.stdout)
    return found


def _ratios(found: dict[str, Any]) -> dict[str, Any]:
    """Ratios of rates and of CPU time per record, within a turn; the median counts."""
    ratios = {}
    for name, other in RATIOS:
        if name not in found or other not in found:
            continue
        pairs = list(zip(found[name]["runs"], found[other]["runs"], strict=True))
        rates = [one["rate"] / two["rate"] for one, two in pairs]
        cpu = [_cpu(two) / _cpu(one) for one, two in pairs]
        ratios[f"{name} / {other}"] = {
            "rate": round(statistics.median(rates), 3),
            "records_per_cpu_second": round(statistics.median(cpu), 3),
            "rates": [round(ratio, 3) for ratio in rates],
        }
    return ratios


def _cpu(one: dict[str, Any]) -> float:
    """CPU seconds per record."""
    return float(one["cpu_seconds"] / (one["rate"] * one["seconds"]))


def _print_details(state: str, found: dict[str, Any], ratios: dict[str, Any]) -> None:
    print(f"{state:<32}{'first batch s':>14}{'cpu us':>8}{'storage MB':>12}{'PSS MiB':>9}")
    for name, one in found.items():
        runs = one["runs"]

        def middle(key: str, runs: list[dict[str, Any]] = runs) -> float:
            return statistics.median(run["details"][key] for run in runs)

        cpu = statistics.median(map(_cpu, runs)) * 1e6
        print(
            f"{name:<32}{middle('first_batch_seconds'):>14.2f}{cpu:>8.0f}"
            f"{middle('storage_mb'):>12,.0f}{middle('proportional_mib'):>9,.0f}"
        )
    for name, ratio in ratios.items():
        by_cpu = ratio["records_per_cpu_second"]
        print(f"{name:<60}{ratio['rate']:>7.2f} (by CPU time {by_cpu:.2f})")
    print(flush=True)


if __name__ == "__main__":
    main()
