"""Reading: the first epoch of a set in a bucket that is some milliseconds away."""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path

from benchmarks.measure import Run, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail, rate_columns
from benchmarks.scorecard.rows.read_images import make_form
from tests.servers.proxy import proxy
from tests.servers.versitygw import versitygw

_COUNT, _SMALL_COUNT = 33_600, 640
_LATENCY = 0.03  # seconds of each request

_MOSAICML = "https://docs.mosaicml.com/projects/streaming/en/stable/how_to_guides/configure_cloud_storage_credentials.html"
_LITDATA = "https://github.com/Lightning-AI/litData#stream-datasets"
_WEBDATASET = "https://webdataset.github.io/webdataset/gettingstarted"
# (name, whose, form of the set and key in benchmarks.subjects.remote_read, page that it follows)
_SUBJECTS = (
    ("shardmill, NumPy", OURS, "shardmill", ""),
    ("MosaicML Streaming", "MosaicML Streaming", "mosaicml", _MOSAICML),
    ("LitData", "LitData", "litdata", _LITDATA),
    ("WebDataset, curl", "WebDataset", "webdataset", _WEBDATASET),
)


def _read(bench: Bench, library: str) -> Run:
    """Reads from a server that has nothing but this set, through a proxy that adds the latency."""
    count = _SMALL_COUNT if bench.is_small else _COUNT
    folder, served = make_form(bench, library, count), bench.work / "served"
    shutil.rmtree(served, ignore_errors=True)
    (served / "cache").mkdir(parents=True)
    with versitygw(served) as server:
        shutil.copytree(folder, served / "buckets" / "shards" / "set")
        with proxy(server, served, latency=_LATENCY) as between:
            done = run(
                "remote_read",
                library,
                f"{between.server.bucket}/set",
                served / "cache",
                python=sys.executable if library == "shardmill" else bench.python("readers"),
                variables=dict(between.server.environment),
            )
            counts = between.counts()
            done.details["requests"] = sum(counts.kinds.values())
            done.details["received_mb"] = sum(counts.received.values()) / 1e6
    done.details["disk_mb"] = _bytes_in(served / "cache") / 1e6
    shutil.rmtree(served)
    return done


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _subjects(bench: Bench) -> list[Subject]:
    return [
        Subject(
            name,
            whose,
            functools.partial(_read, bench, library),
            "" if library == "shardmill" else "readers",
            page,
        )
        for name, whose, library, page in _SUBJECTS
    ]


READ_REMOTE = Row(
    "read-s3",
    "read photographs from S3, 30 ms away, first epoch",
    """
The photographs of the row "read", four times as many, lie in a bucket of a server on the same
machine (Versity's gateway); a proxy adds 30 ms to every request. One whole epoch is read from the
opening of the set on, shuffled, with the same kernels in all programs. The server and the proxy
take CPU time of the same two cores, which is not counted. tf.data is left out: TensorFlow 2.21 has
no file system for S3.
""",
    (
        *rate_columns("images"),
        Column("first batch s", detail("first_batch_seconds"), "less", 1),
        Column("requests", detail("requests"), "less"),
        Column("MB received", detail("received_mb"), "less"),
        Column("MB on disk", detail("disk_mb"), "less"),
    ),
    _subjects,
    turns=3,
)
