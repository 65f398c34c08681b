"""Opening a set of a billion records: `python -m benchmarks.opening [--url s3://BUCKET/SET]`.

The set is sparse: a real manifest, list of shards and parts of the index, while all parts are links
to one file and all shards to another, of 1,342 images of 9 x 9 pixels. The reader cannot tell: rows
of every part lead to whole records.

Each figure is of a process of its own, after its imports: seconds until the set is open and until
the first batch, from the first epoch's begin and from 90 % of it; memory that was added until then.
With --url the same set is read from a server that has it too, such as versitygw over the scratch
folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg

from beam_jobs.options import ImageOptions
from beam_jobs.run import preprocess
from benchmarks.measure import parser, write
from shard_format import (
    IndexWriter,
    ShardInfo,
    SplitInfo,
    file_info,
    index_schema,
    load_manifest,
    naming,
    open_index,
)
from shard_format.index_parts import PART_ROWS
from shard_format.manifest import IndexPart
from shard_format.shard_list import write_shard_list

_RECORDS = 1342  # of a shard: images of 100 kB fill 128 MiB
_SIDE = 9
_BATCH = 128
_JUMP = 0.9


def main() -> None:
    """Makes the set unless it is there, measures, writes the results."""
    options = parser("opening", __doc__, turns=False)
    options.add_argument("--records", type=float, default=1e9)
    options.add_argument("--url", help="the same set at a server")
    options.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.measure:
        print(json.dumps(_measured(arguments.measure[0], float(arguments.measure[1]))))
        return
    root = arguments.work / "opening"
    if not (root / naming.MANIFEST).exists():
        make_set(root, int(arguments.records))
    manifest = load_manifest(root)
    split = manifest.splits["train"]
    results: dict[str, Any] = {
        "records": split.records,
        "shards": len(split.shards),
        "parts": len(split.index),
        "manifest_bytes": (root / naming.MANIFEST).stat().st_size,
        "list_bytes": manifest.files[naming.shards_file("train")]["bytes"],
        "part_bytes": manifest.files[split.index[0].file]["bytes"],
    }
    for name, place in (("local", str(root)), ("url", arguments.url)):
        if place:
            results[name] = {str(share): _run(place, share) for share in (0.0, _JUMP)}
            print(name, json.dumps(results[name]))
    write("opening", results)


def make_set(root: Path, records: int) -> None:
    """Makes a set with that many records, and some more so that all parts are equal.

    Args:
        root: The set, which is not there yet.
        records: Number of records at least.
    """
    with tempfile.TemporaryDirectory() as scratch:
        small = _build_shard(Path(scratch))
        before = load_manifest(small)
        (shard,) = before.splits["train"].shards
        own = PART_ROWS // _RECORDS
        parts = -(-records // (own * _RECORDS))
        count = own * parts
        (root / naming.INDEX_DIR).mkdir(parents=True)
        (root / "shard").write_bytes((small / shard.file).read_bytes())
        _write_part(small / before.index_file("train"), root / "part", own)
    names = [naming.shard_file(before.name, "train", number, count) for number in range(count)]
    for name in names:
        os.symlink("shard", root / name)
    shards = [ShardInfo(name, shard.records, shard.bytes, shard.sha256) for name in names]
    write_shard_list(root / naming.shards_file("train"), shards)
    index = tuple(IndexPart(naming.index_part_file("train", one), own) for one in range(parts))
    part = file_info(root / "part")
    for one in index:
        os.link(root / "part", root / one.file)
    total = count * _RECORDS
    statistics = {**before.splits["train"].statistics, "class_counts": {"a": total}}
    files = {one.file: part for one in index}
    files[naming.shards_file("train")] = file_info(root / naming.shards_file("train"))
    manifest = dataclasses.replace(
        before,
        splits={"train": SplitInfo(shards, statistics, index)},
        ledger=dataclasses.replace(before.ledger, read=total, kept=total),
        files=files,
    )
    (root / naming.MANIFEST).write_text(manifest.to_text())


def make_images(folder: Path, count: int) -> None:
    """Makes tiny images of one class."""
    random = np.random.default_rng(0)
    (folder / "a").mkdir(parents=True)
    for number in range(count):
        pixels = random.integers(0, 256, (_SIDE, _SIDE, 3), np.uint8)
        path = folder / "a" / f"{number}.jpg"
        path.write_bytes(simplejpeg.encode_jpeg(np.asarray(pixels), 50))


def _build_shard(scratch: Path) -> Path:
    """Builds a set of one shard."""
    make_images(scratch / "images", _RECORDS)
    values = {"split": "train=1", "resize": "none", "num_shards": 1, "no_report": True}
    preprocess(ImageOptions((str(scratch / "images"),), str(scratch / "set"), **values))
    return scratch / "set"


def _write_part(index: Path, place: Path, shards: int) -> None:
    """Writes the rows of a shard as often as a part has shards."""
    rows = open_index(index)
    common = set(index_schema([]).names)
    columns = [field for field in rows.schema if field.name not in common]
    with IndexWriter(place, columns) as writer:
        for number in range(shards):
            shard = np.full(len(rows), number, np.int32)
            writer.append(rows.set_column(0, rows.schema.field(0), [shard]))


def _run(place: str, share: float) -> dict[str, float]:
    """The figures of one process."""
    command = [sys.executable, "-m", "benchmarks.opening", "--measure", place, str(share)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _measured(place: str, share: float) -> dict[str, float]:
    import reader

    values: dict[str, Any] = {"batch_size": _BATCH, "image_size": 32, "cache": "off", "epochs": 1}
    with tempfile.TemporaryDirectory() as folder:
        _warm_up(Path(folder), values)
        before, start = _peak_mib(), time.perf_counter()
        stream = reader.load(place, **values)
        opened = time.perf_counter() - start
        if share:
            start = time.perf_counter()
            state = stream.state(int(stream.steps_per_epoch * share))
            del stream
            stream = reader.load(place, state=state, **values)
        images, _ = next(iter(stream.dataset))
        assert images.shape[0] == _BATCH
        batch = time.perf_counter() - start
    return {
        "open_seconds": round(opened, 2),
        "batch_seconds": round(batch, 2),
        "added_mib": round(_peak_mib() - before),
    }


def _warm_up(folder: Path, values: dict[str, Any]) -> None:
    """Loads what a first stream loads, TensorFlow above all."""
    import reader

    small = _build_shard(folder)
    next(iter(reader.load(small, **values).dataset))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
