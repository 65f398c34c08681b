"""A shard set of any number of small images, written directly, without planning.

Ten shards are written in full; of a larger set the others are hard links to them, for a reader that
opens only what it reads does not notice. The index has every row.
"""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.images.encode import encode_jpeg
from shard_format import (
    Feature,
    IndexWriter,
    Ledger,
    Manifest,
    Schema,
    ShardInfo,
    SplitInfo,
    encode_example,
    file_sha256,
    frame,
    index_schema,
    mix,
)
from shard_format.naming import INDEX_DIR, MANIFEST, index_file, shard_file

_SHARD_RECORDS = 128_000
_WRITTEN = 10
_PICTURES = 4_096  # distinct ones
_SIDE = 16  # pixels: some 400 bytes
_CLASSES = 1_000
_STATISTICS = (pa.field("width", pa.int32()), pa.field("height", pa.int32()))


def make_synthetic_set(directory: Path, num_shards: int) -> Path:
    """A set of `num_shards` shards of 128,000 records, created once and reused."""
    if (directory / MANIFEST).exists():
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    (directory / INDEX_DIR).mkdir(parents=True)
    schema = Schema(
        "image",
        (
            Feature("id", "text"),
            Feature("image", "image", (-1, -1, 3), "jpeg"),
            Feature("label", "class_label", (), "", tuple(f"c{k}" for k in range(_CLASSES)), True),
        ),
    )
    images = _pictures()
    shards: list[ShardInfo] = []
    lengths: list[np.ndarray[Any, Any]] = []
    with IndexWriter(directory / index_file("train"), _STATISTICS) as index:
        for number in range(num_shards):
            path = directory / shard_file("synthetic", "train", number, num_shards)
            if number < _WRITTEN:
                lengths.append(_write_shard(path, schema, images, number))
                sha256 = file_sha256(path)
            else:
                path.hardlink_to(directory / shards[number % _WRITTEN].file)
                sha256 = shards[number % _WRITTEN].sha256
            own = lengths[number % _WRITTEN]
            index.append(_rows(number, own))
            shards.append(ShardInfo(path.name, _SHARD_RECORDS, int(own.sum()), sha256))
    path = directory / index_file("train")
    files = {index_file("train"): {"bytes": path.stat().st_size, "sha256": file_sha256(path)}}
    count = num_shards * _SHARD_RECORDS
    manifest = Manifest(
        "synthetic",
        schema,
        {"train": SplitInfo(tuple(shards), {})},
        Ledger(count, count, 0, 0, 0, {}),
        {},
        files,
    )
    (directory / MANIFEST).write_text(manifest.to_text())
    return directory


def _pictures() -> list[bytes]:
    random = np.random.default_rng(0)
    coarse = random.integers(0, 256, (_PICTURES, 4, 4, 3), np.uint8)
    return [encode_jpeg(one.repeat(4, axis=0).repeat(4, axis=1), 75) for one in coarse]


def _write_shard(
    path: Path, schema: Schema, images: list[bytes], shard: int
) -> np.ndarray[Any, Any]:
    """[_SHARD_RECORDS] int64: the length of every frame that was written."""
    lengths = np.empty(_SHARD_RECORDS, np.int64)
    with path.open("wb") as file:
        for place, image in zip(range(_SHARD_RECORDS), itertools.cycle(images), strict=False):
            number = shard * _SHARD_RECORDS + place
            values = {"id": f"r{number:08d}", "image": image, "label": number % _CLASSES}
            framed = frame(encode_example(schema, values))
            file.write(framed)
            lengths[place] = len(framed)
    return lengths


def _rows(shard: int, lengths: np.ndarray[Any, Any]) -> pa.Table:
    """The rows of one shard."""
    count = len(lengths)
    numbers = np.arange(shard * count, (shard + 1) * count)
    sides = pa.array(np.full(count, _SIDE, np.int32))
    columns = {
        "shard": pa.array(np.full(count, shard, np.int32)),
        "offset": pa.array(np.cumsum(lengths) - lengths),
        "length": pa.array(lengths),
        "key": pa.array(numbers.astype(np.uint64)),
        "record_id": pa.array([f"r{number:08d}" for number in numbers]),
        "label": pa.array(numbers % _CLASSES),
        "fingerprint": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), count, [None, pa.py_buffer(mix(np.arange(2 * count)).tobytes())]
        ),
        "width": sides,
        "height": sides,
    }
    return pa.table(columns, schema=index_schema(_STATISTICS))
