"""DLIO, the benchmark behind MLPerf Storage: how many simulated accelerators this machine feeds."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sysconfig
from pathlib import Path

from benchmarks.dlio.links import link
from benchmarks.dlio.workloads import WORKLOADS
from benchmarks.measure import HERE, Run, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail
from benchmarks.scorecard.rows.read_images import fill

_DLIO = "https://dlio-benchmark.readthedocs.io/en/latest"
_CUSTOM = f"{_DLIO}/custom_data_loader.html"
_MOST_SECONDS = 900  # of a subject, which takes minutes; loaders of DLIO have hung
# (name, whose, key of benchmarks.dlio.workloads.LOADERS, form of the data, page that it follows)
_SUBJECTS = (
    ("shardmill", OURS, "shardmill", "shardmill", _CUSTOM),
    ("DLIO's tf.data, shards of shardmill", "tf.data", "tensorflow", "shardmill", _DLIO),
    ("DLIO's tf.data", "tf.data", "tensorflow", "tfrecord", _DLIO),
    ("DLIO's DALI", "DALI", "dali", "tfrecord", _DLIO),
    ("DLIO's PyTorch, a file a sample", "PyTorch", "pytorch", "npz", _DLIO),
)


def _make_form(bench: Bench, workload: str, form: str) -> Path:
    """The folder with the data in the form of a loader; an existing one is taken again."""
    root = bench.work / f"dlio-{workload}{'-small' if bench.is_small else ''}"
    out, complete = root / form, root / f"{form} is complete"
    if complete.exists():
        return out
    arguments = (workload, form, out, json.dumps(bench.is_small))
    if form == "shardmill":
        wanted = WORKLOADS[workload]
        images = root / "parquet"
        run("dlio_forms", workload, "parquet", images, json.dumps(bench.is_small))
        options = {
            "resize": "none",
            "quality": "keep",
            "dedup": "off",
            "no_labels": True,
            "split": "train=1",
            "num_shards": (wanted.small if bench.is_small else wanted).files,
            "keep_columns": "size:int64",
        }
        run("shardmill_build", "image", images, root / "set", json.dumps(options))
        shutil.rmtree(out, ignore_errors=True)
        link(root / "set", out)
    else:
        run("dlio_forms", *arguments, python=bench.python("dlio"), variables=_variables(bench))
    complete.touch()
    return out


def _variables(bench: Bench) -> dict[str, str]:
    """DLIO finds TensorFlow and shardmill here, PyTorch, DALI and its index in another place."""
    readers = bench.peers / "readers"
    packages = sysconfig.get_path("purelib", vars={"base": str(readers)})
    path = [str(HERE.parent), sysconfig.get_path("purelib"), packages]
    commands = [str(readers / "bin"), os.environ["PATH"]]
    return {"PYTHONPATH": os.pathsep.join(path), "PATH": os.pathsep.join(commands)}


def _feed(bench: Bench, workload: str, loader: str, form: str) -> Run:
    folder = _make_form(bench, workload, form)
    fill(folder)
    return run(
        "dlio_feed",
        workload,
        loader,
        folder,
        json.dumps(bench.is_small),
        python=bench.python("dlio"),
        variables=_variables(bench),
        most_seconds=_MOST_SECONDS,
    )


def _subjects(bench: Bench, workload: str) -> list[Subject]:
    return [
        Subject(name, whose, functools.partial(_feed, bench, workload, loader, form), "dlio", page)
        for name, whose, loader, form, page in _SUBJECTS
    ]


def _row(workload: str, title: str, task: str, behind: str = "") -> Row:
    return Row(
        f"dlio-{workload}",
        title,
        task,
        (
            Column("samples/s", lambda run: run.rate, "more"),
            Column("accelerators fed", detail("accelerators"), "more"),
            Column("MB/s", detail("megabytes_per_second"), "more"),
            Column("busy %", detail("busy_percent")),
            Column("CPU ms each", lambda run: 1000 / run.cpu_rate, "less", 2),
            Column("peak MiB", lambda run: run.peak_mib, "less"),
        ),
        functools.partial(_subjects, workload=workload),
        behind,
    )


DLIO_RESNET50 = _row(
    "resnet50",
    "DLIO, resnet50 of MLPerf Storage on simulated H100",
    """
DLIO 2.0.0 runs its workload `resnet50_h100` with its own clock: batches of 400 samples of 115 kB,
0.224 s of a simulated H100 each, which must be busy for 90 % of the time. There is a process for
each accelerator; a binary search finds how many are fed, up to four, and the other figures are
those of the most that were. The number of files is cut to 8 of 1,251 samples, which the page
cache holds: this machine, not a storage system, is what is measured. DLIO's own loaders read and
parse records and hand out one and the same array; shardmill's reads, checks and parses them, and
hands out their bytes. DLIO's loader of DALI fails in a second epoch, so that it has one.
[docs/dlio.md](dlio.md) has it on a cluster.
""",
    "Two accelerators take 3,571 samples a second at most. shardmill feeds both in one turn of "
    "five, 91 % busy, and one in the others. It copies each batch of 46 MB out of the windows that "
    "it reads, where DLIO's loaders hand out the same array again; the rest is not profiled yet.",
)
DLIO_COSMOFLOW = _row(
    "cosmoflow",
    "DLIO, cosmoflow",
    """
As above with `cosmoflow_h100`: samples of 2.8 MB, one in a batch, 3.5 ms of a simulated H100, which
must be busy for 70 % of the time, shuffled. 64 files of 8 samples, not 524,288 of one. Of both,
shardmill's samples are images of noise, DLIO's are random bytes.
""",
    "DALI's loader takes 2.4 ms of CPU for a sample, shardmill's 4.0: it checks 2.8 MB against "
    "their checksum and hands out a copy of them, where DLIO's loaders hand out the same array "
    "again. What each of these costs is not profiled yet.",
)
DLIO_BERT = _row(
    "bert",
    "DLIO, bert",
    """
As above with `bert_v100`: samples of 2.5 kB, 48 in a batch, 0.968 s of a simulated V100 (DLIO has
no H100 for it), which must be busy for 90 % of the time, shuffled. 2 files of 10,000 samples, 20
steps, no checkpoints.
""",
    "Four accelerators take 198 samples a second at most, which three of the loaders come up to.",
)
