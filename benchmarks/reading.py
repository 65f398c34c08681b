"""Reading: `python -m benchmarks.reading [--peers PYTHON] [--state cold|warm]`.

The same images, randomly cropped to 224 and mirrored, in batches of 64, uint8: by chains of
tf.data, by the bare kernels, by this reader, by TFDS, and, with --peers, by WebDataset, MosaicML
Streaming, Grain, SPDL, PyTorch, LitData and Hugging Face datasets. Cold: the files are evicted from
the page cache before every run; the details of a run have the bytes that it read from storage. The
peers use PyTorch and have their own environment:

    python -m venv peers
    peers/bin/pip install -r benchmarks/requirements-peers.txt
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpus import make_corpus
from benchmarks.images import build_images
from benchmarks.measure import Run, parser, run, take_turns, write

_BLOCK_BYTES = 4 << 20
_SAMPLE_SECONDS = 0.5  # a reader grows slowly, and each sample of its many pages takes CPU time


class Subject(NamedTuple):
    """A measured program.

    Attributes:
        module: Module in benchmarks/subjects.
        form: Form of the set that it reads: a key of the result of `_make_sets`.
        arguments: Arguments between the folder and the seconds.
    """

    module: str
    form: str
    arguments: tuple[str, ...]

    @property
    def is_peer(self) -> bool:
        """Whether it runs in the environment of the peers."""
        return self.form != "shardmill"


def _reader(face: str, shuffle: str, cache: str = "off") -> Subject:
    return Subject("shardmill_read", "shardmill", (face, shuffle, cache))


# Ratios are to the first.
SUBJECTS = {
    "hand-tuned tf.data": Subject("hand_tuned_read", "shardmill", ("tuned",)),
    "tf.data of training scripts": Subject("hand_tuned_read", "shardmill", ("usual",)),
    "tf.data of tutorials": Subject("hand_tuned_read", "shardmill", ("plain",)),
    "bare kernels": Subject("bare_read_kernels", "shardmill", ()),
    "reader, window": _reader("dataset", "window"),
    "reader, full": _reader("dataset", "full"),
    "reader, off": _reader("dataset", "off"),
    "reader, window, memory": _reader("dataset", "window", "memory"),
    "reader, numpy, window": _reader("numpy", "window"),
    "reader, numpy, full": _reader("numpy", "full"),
    "reader, graph, window": _reader("graph", "window"),
    "reader, graph, full": _reader("graph", "full"),
    "TFDS": Subject("tfds_read", "shardmill", ("tutorial",)),
    "TFDS, tuned": Subject("tfds_read", "shardmill", ("tuned",)),
    "TFDS, SkipDecoding": Subject("tfds_read", "shardmill", ("skip",)),
    "WebDataset": Subject("webdataset_read", "webdataset", ("pil",)),
    "WebDataset, OpenCV": Subject("webdataset_read", "webdataset", ("tuned",)),
    "MosaicML Streaming": Subject("mosaicml_read", "mosaicml", ("pil",)),
    "MosaicML Streaming, OpenCV": Subject("mosaicml_read", "mosaicml", ("tuned",)),
    "Grain, ArrayRecord": Subject("grain_read", "array_records", ()),
    "SPDL, files": Subject("spdl_read", "files", ()),
    "PyTorch, files": Subject("torch_read", "files", ()),
    "LitData": Subject("litdata_read", "litdata", ()),
    "Hugging Face, Parquet": Subject("datasets_read", "parquet", ()),
}


def main() -> None:
    """Takes the turns, prints tables, writes the results."""
    arguments = parser("reading", __doc__)
    arguments.add_argument("--count", type=int, default=67_200, help="images of the set")
    arguments.add_argument("--seconds", type=float, default=8, help="on the clock of each run")
    arguments.add_argument("--state", choices=["cold", "warm"], action="append")
    arguments.add_argument("--subject", choices=SUBJECTS, action="append", help="only these")
    arguments.add_argument("--peers", metavar="PYTHON", help="the interpreter that has the peers")
    chosen = arguments.parse_args()
    sets = _make_sets(chosen.work, chosen.count, chosen.peers)
    names = chosen.subject or list(SUBJECTS)
    results: dict[str, object] = {"images": chosen.count}
    for state in chosen.state or ["cold", "warm"]:
        subjects = {
            name: functools.partial(
                _read,
                subject,
                sets[subject.form],
                state,
                chosen.seconds,
                chosen.peers if subject.is_peer else sys.executable,
            )
            for name, subject in SUBJECTS.items()
            if name in names and subject.form in sets
        }
        results[state] = take_turns(f"reading, {state}", subjects, chosen.turns)
        write("reading", results)


def read(folder: Path, seconds: float, worktree: Path | None = None) -> Run:
    """Runs shardmill's reader with its defaults on files that are in memory."""
    _fill(folder)
    arguments = (folder, "dataset", "window", "off", seconds)
    return run("shardmill_read", *arguments, worktree=worktree, sample_seconds=_SAMPLE_SECONDS)


def _read(subject: Subject, folder: Path, state: str, seconds: float, python: str) -> Run:
    """Runs a subject after its files were evicted from memory or loaded into it."""
    most = 0
    if state == "cold":
        _evict(folder)
        most = _records(folder)
    else:
        _fill(folder)
    return run(
        subject.module,
        folder,
        *subject.arguments,
        seconds,
        most,
        python=python,
        sample_seconds=_SAMPLE_SECONDS,
    )


def _evict(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())  # pages that were not written yet would stay
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _fill(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(_BLOCK_BYTES):
                    pass


def _make_sets(work: Path, count: int, peers: str | None) -> dict[str, Path]:
    """Returns the folder of each form of the set; existing ones are reused."""
    root = work / f"reading-{count}"
    forms = ("shardmill", "webdataset", "mosaicml", "files", "array_records", "litdata", "parquet")
    sets = {form: root / form for form in forms[: None if peers else 1]}
    for form, out in sets.items():
        complete = root / f"{form} is complete"
        if complete.exists():
            continue
        if form == "shardmill":
            corpus = make_corpus(work, count)
            build_images(corpus, out, "off")
            shutil.rmtree(corpus.parent)
        elif form == "webdataset":
            run("write_tars", sets["shardmill"], out)
        elif form == "mosaicml":
            run("write_mds", sets["webdataset"], out, python=str(peers))
        else:
            run("write_peers", form, sets["webdataset"], out, python=str(peers))
        complete.touch()
    return sets


def _records(folder: Path) -> int:
    """The number of training records; the other forms lie beside the shard set."""
    manifest = json.loads((folder.parent / "shardmill" / "manifest.json").read_text())
    return int(manifest["splits"]["train"]["records"])


if __name__ == "__main__":
    main()
