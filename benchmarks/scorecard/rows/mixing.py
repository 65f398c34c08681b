"""Shuffling: how far the records of one source are apart in an epoch."""

from __future__ import annotations

import functools
import sys

from benchmarks.measure import Run, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail, subjects_of
from benchmarks.scorecard.rows.resume import make_ids

_COUNT, _SMALL_COUNT = 262_144, 32_768

_TFDS = "https://www.tensorflow.org/datasets/performances"
_TENSORFLOW = "https://www.tensorflow.org/guide/data#randomly_shuffling_input_data"
_MOSAICML = (
    "https://docs.mosaicml.com/projects/streaming/en/stable/dataset_configuration/shuffling.html"
)
_LITDATA = "https://github.com/Lightning-AI/litData"
_GRAIN = "https://google-grain.readthedocs.io/en/latest/tutorials/dataset_basic_tutorial.html"
_TORCHDATA = "https://docs.pytorch.org/docs/stable/data.html"
_WEBDATASET = "https://webdataset.github.io/webdataset/gettingstarted"
_DATASETS = "https://huggingface.co/docs/datasets/stream#shuffle"
# (name, whose, key in benchmarks.subjects.resume, form of the set, page that it follows)
_SUBJECTS = (
    ("shardmill, full", OURS, "shardmill", "shardmill", ""),
    ("shardmill, window", OURS, "shardmill, window", "shardmill", ""),
    ("TFDS", "TFDS", "TFDS", "shardmill", _TFDS),
    ("tf.data, buffer of 4,096", "tf.data", "tensorflow", "tfrecords", _TENSORFLOW),
    ("MosaicML Streaming", "MosaicML Streaming", "mosaicml", "mosaicml", _MOSAICML),
    ("LitData", "LitData", "litdata", "litdata", _LITDATA),
    ("Grain, ArrayRecord", "Grain", "array_records", "array_records", _GRAIN),
    ("PyTorch, array in memory", "PyTorch", "array", "array", _TORCHDATA),
    ("WebDataset, buffer of 4,096", "WebDataset", "webdataset", "webdataset", _WEBDATASET),
    (
        *("Hugging Face, streamed, buffer of 4,096", "Hugging Face datasets"),
        *("datasets", "webdataset", _DATASETS),
    ),
)
_OWN_FORMS = ("shardmill", "tfrecords")


def _mix(bench: Bench, count: int, library: str, form: str) -> Run:
    python = sys.executable if form in _OWN_FORMS else bench.python("readers")
    return run("mixing", library, make_ids(bench, form, count), count, python=python)


def _subjects(bench: Bench) -> list[Subject]:
    count = _SMALL_COUNT if bench.is_small else _COUNT
    run_one = functools.partial(_mix, bench, count)
    return subjects_of(_SUBJECTS, run_one, _OWN_FORMS)


MIXING = Row(
    "shuffle",
    "how far an epoch mixes the records of one source",
    """
A corpus of 512 sources of 512 records each is written in its order, in shards of 4,096 records, and
read for one epoch, shuffled as each documentation says. Two figures, 1 being what a random
permutation gives: the part of the epoch over which the records of a source are spread, and the
number of sources in a batch of 64. shardmill and TFDS shuffle when they write, too; the readers of
the others would gain from a corpus that was shuffled before.
""",
    (
        Column("span of a source, of chance", detail("span"), "more", 2),
        Column("sources in a batch, of chance", detail("sources"), "more", 2),
    ),
    _subjects,
    turns=1,
)
