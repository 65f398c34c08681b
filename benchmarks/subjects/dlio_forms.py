"""The data of DLIO's workloads: what DLIO generates itself, and images as large for a shard set."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import simplejpeg

from benchmarks.dlio.workloads import WORKLOADS, Workload, command, run
from benchmarks.subjects.clock import measure

_DISTINCT = 16  # images, over and over: neither files nor records are compressed
_QUALITY = 90


def main() -> None:
    """Arguments: WORKLOAD FORM OUT IS_SMALL; FORM is tfrecord, npz or parquet."""
    name, form, out, is_small = sys.argv[1:]
    workload = WORKLOADS[name].small if json.loads(is_small) else WORKLOADS[name]

    def make() -> int:
        if form == "parquet":
            _write_parquet(workload, Path(out))
        else:
            _generate(workload, "pytorch" if form == "npz" else "tensorflow", Path(out))
        return workload.files * workload.samples

    measure(make)


def _generate(workload: Workload, loader: str, out: Path) -> None:
    changes: dict[str, Any] = {"workflow__generate_data": True, "workflow__train": False}
    run(command(workload, loader, out, out / "generation", 1, **changes))


def _write_parquet(workload: Workload, out: Path) -> None:
    """Images of noise, each about as large as a record, and the column that DLIO parses."""
    images = [_noise(workload.record_bytes, number) for number in range(_DISTINCT)]
    total = workload.files * workload.samples
    out.mkdir(parents=True, exist_ok=True)
    schema = pa.schema({"image": pa.binary(), "size": pa.int64()})
    with pq.ParquetWriter(out / "images.parquet", schema, use_dictionary=False) as writer:
        for begin in range(0, total, _DISTINCT):
            stored = images[: min(_DISTINCT, total - begin)]
            sizes = [len(image) for image in stored]
            writer.write_table(pa.table({"image": stored, "size": sizes}, schema))


def _noise(size: int, seed: int) -> bytes:
    """A JPEG of about so many bytes; its bytes grow with its pixels."""
    generator = np.random.default_rng(seed)
    side = 64
    for _ in range(4):
        pixels = generator.integers(0, 256, (side, side, 3), np.uint8)
        encoded = simplejpeg.encode_jpeg(pixels, quality=_QUALITY)
        side = max(8, round(side * (size / len(encoded)) ** 0.5))
    return bytes(encoded)


if __name__ == "__main__":
    main()
