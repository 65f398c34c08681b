"""Going on in the middle of an epoch: how long, with which state, and whether nothing is lost."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from benchmarks.measure import Run, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail, subjects_of
from benchmarks.subjects.clock import BATCH
from benchmarks.subjects.id_forms import SHARD_RECORDS

_SHARE = 0.9
_MILLION, _SMALL_COUNT = 1_280_000, 20_000

_MOSAICML = "https://docs.mosaicml.com/projects/streaming/en/stable/dataset_configuration/elastic_determinism.html"
_LITDATA = "https://lightning.ai/docs/litdata/features/stateful-dataloader"
_GRAIN = "https://google-grain.readthedocs.io/en/latest/tutorials/dataset_basic_tutorial.html"
_TORCHDATA = "https://github.com/meta-pytorch/data/blob/main/torchdata/stateful_dataloader"
_WEBDATASET = "https://github.com/webdataset/webdataset/blob/main/docs/faq.md"
_TENSORFLOW = "https://www.tensorflow.org/guide/data#iterator_checkpointing"
# (name, whose, key in benchmarks.subjects.resume, form of the set, page that it follows)
_SUBJECTS = (
    ("shardmill", OURS, "shardmill", "shardmill", ""),
    ("tf.data, its own checkpoint", "tf.data", "tensorflow", "shardmill", _TENSORFLOW),
    ("MosaicML Streaming", "MosaicML Streaming", "mosaicml", "mosaicml", _MOSAICML),
    ("LitData", "LitData", "litdata", "litdata", _LITDATA),
    ("Grain, ArrayRecord", "Grain", "array_records", "array_records", _GRAIN),
    ("torchdata, StatefulDataLoader", "torchdata", "array", "array", _TORCHDATA),
    ("WebDataset, read again", "WebDataset", "webdataset", "webdataset", _WEBDATASET),
)
_LARGEST_TARS = 2_000_000  # records of 1 kB each


def make_ids(bench: Bench, form: str, count: int) -> Path:
    """The folder with the records in the form of a library; an existing one is taken again."""
    root = bench.work / f"ids-{count}"
    out, complete = root / form, root / f"{form} is complete"
    if complete.exists():
        return out
    if form == "shardmill":
        run("id_forms", "lines", count, root / "lines")
        options = {
            "clean": "nfc",
            "dedup": "off",
            "no_labels": True,
            "format": "jsonl",
            "split": "train=1",
            "num_shards": -(-count // SHARD_RECORDS),
        }
        run("shardmill_build", "text", root / "lines", out, json.dumps(options))
    else:
        python = sys.executable if form == "tfrecords" else bench.python("readers")
        run("id_forms", form, count, out, python=python)
    complete.touch()
    return out


def _resume(bench: Bench, count: int, library: str, form: str) -> Run:
    folder = make_ids(bench, form, count)
    state = folder.parent / f"{library}.state"
    python = sys.executable if form == "shardmill" else bench.python("readers")
    arguments = (library, folder, int(count * _SHARE) // BATCH, state)
    if not state.exists():
        run("resume", *arguments, "reach", python=python)
    return run("resume", *arguments, python=python)


def _subjects(bench: Bench, count: int) -> list[Subject]:
    count = _SMALL_COUNT if bench.is_small else count
    has_tars = count <= _LARGEST_TARS
    table = [one for one in _SUBJECTS if has_tars or one[3] != "webdataset"]
    return subjects_of(table, functools.partial(_resume, bench, count))


_COLUMNS = (
    Column("s to the next batch", detail("next_seconds"), "less", 2),
    Column("bytes of state", detail("state_bytes"), "less"),
    Column("the same records follow", detail("exact")),
)
RESUME = Row(
    "resume",
    "go on at 90 % of an epoch of 1.28 million records",
    """
A program reads 90 % of a shuffled epoch in batches of 64, and saves its state. A new process loads
it; the time from opening the set to the next batch counts, imports do not. The next eight batches
are compared with those that the first process read. Records are their own numbers, so that nothing
but finding the place takes time; the buffer that tf.data saves grows with the size of records.
WebDataset has no state: it reads the records before the place again. The state of Grain is the
number of the next record, so that the first process goes to the place and does not read up to it.
""",
    _COLUMNS,
    functools.partial(_subjects, count=_MILLION),
    behind="""
Both take less than half a second, and vary by more than they differ. tf.data reads its shuffle
buffer back, shardmill opens the set and works the order out again.
""".strip(),
)
RESUME_LARGE = Row(
    "resume-large",
    "go on at 90 % of an epoch of 12.8 million records",
    """
As above. WebDataset is left out: its tar files would have 13 GB. The states are made by reading
90 % of the epoch with every library, which takes far longer than the turns.
""",
    _COLUMNS,
    functools.partial(_subjects, count=10 * _MILLION),
)
