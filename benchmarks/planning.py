"""Time and memory of planning: `python -m benchmarks.planning [--millions 2,8,20] [--dedup near]`.

The sidecars are made up: 1,000 rows a unit, with the columns of real staged images, one record in a
hundred with the fingerprint of another one. `plan_shards`, the same code as in a build, runs in a
process of its own, as the local engine and a worker of a cluster run it. With `--dedup near` rows
have random hashes and thumbnails, those of one in a hundred nearly those of another row.

The exponent from the first size to the last extrapolates the next one. The first size in units of a
tenth tells what a unit costs; the last two sizes, which are sorted in several partitions, tell what
a row costs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.build import open_job
from beam_jobs.dedup.images.hash_format import (
    BAND_POSITIONS,
    CERTAINTY_BYTES,
    CODE_BITS,
    CODES_BYTES,
    THUMBNAIL_BYTES,
    VIEWS,
    WEAK_BITS,
)
from beam_jobs.job_context import JobContext
from beam_jobs.options import ImageOptions
from beam_jobs.stages.list import list_corpus
from beam_jobs.stages.plan import plan_shards
from beam_jobs.stages.stage import stage_unit
from beam_jobs.staging.units import Unit, UnitSummary, read_units, unit_files
from beam_jobs.workspace import write_table
from benchmarks.measure import HERE, parser, write
from benchmarks.table_sidecars import fixed_binary

_SAMPLES = HERE.parent / "samples" / "clothing"
UNIT_ROWS = 1000
_CLASSES = 1000
_DUPLICATES = 100  # one in so many
_VIEW_FLIPS = 8  # bits of a code in which a view differs from the whole


def main() -> None:
    """Plans each size, writes the results."""
    options = parser("planning", __doc__, turns=False)
    options.add_argument("--millions", default="2,8,20", help="rows of each corpus")
    options.add_argument("--dedup", default="exact", choices=("exact", "near"))
    options.add_argument("--plan", type=Path, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.plan:
        print(json.dumps(_plan(arguments.plan, arguments.dedup)))
        return
    sizes = [int(1e6 * float(size)) for size in arguments.millions.split(",")]
    work = arguments.work / "planning"
    plans = [_measured(work, size, UNIT_ROWS, arguments.dedup) for size in sizes]
    if len(plans) < 2:
        return  # for a look at one size
    small = _measured(work, sizes[0], UNIT_ROWS // 10, arguments.dedup)
    exponent = _exponent(plans[0], plans[-1])
    results = {
        "plans": [*plans, small],
        "exponent": round(exponent, 3),
        "extrapolated": {
            "rows": 10 * sizes[-1],
            "seconds": round(plans[-1]["seconds"] * 10**exponent),
        },
        "costs": _costs(plans, small),
    }
    print(json.dumps({key: results[key] for key in results if key != "plans"}))
    write("planning", results)


def _costs(plans: list[dict[str, Any]], small: dict[str, Any]) -> dict[str, float]:
    """What a row costs and what a unit, and the memory of a process that plans nothing."""
    first, before, last = plans[0], *plans[-2:]
    unit = {
        name: (small[name] - first[name]) / (small["units"] - first["units"])
        for name in ("seconds", "peak_mib")
    }
    units = last["units"] - before["units"]
    row = {
        name: (last[name] - before[name] - units * unit[name]) / (last["rows"] - before["rows"])
        for name in unit
    }
    known = last["rows"] * row["peak_mib"] + last["units"] * unit["peak_mib"]
    return {
        "row_microseconds": round(1e6 * row["seconds"], 2),
        "unit_microseconds": round(1e6 * unit["seconds"]),
        "row_bytes": round(row["peak_mib"] * 2**20, 1),
        "unit_bytes": round(unit["peak_mib"] * 2**20),
        "base_mib": round(last["peak_mib"] - known),
    }


def _exponent(small: dict[str, Any], large: dict[str, Any]) -> float:
    """Of the time as a power of the rows."""
    seconds = large["seconds"] / small["seconds"]
    return math.log(seconds) / math.log(large["rows"] / small["rows"])


def _measured(work: Path, rows: int, unit_rows: int, dedup: str) -> dict[str, Any]:
    shutil.rmtree(work, ignore_errors=True)
    _make(work, rows, unit_rows, dedup)
    command = [sys.executable, "-m", "benchmarks.planning", "--plan", str(work), "--dedup", dedup]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured = {"rows": rows, **json.loads(done.stdout.splitlines()[-1])}
    print(measured, flush=True)
    shutil.rmtree(work)
    return measured


def _job(work: Path, dedup: str) -> JobContext:
    options = ImageOptions(
        (str(_SAMPLES),), str(work / "set"), split="train=0.9,test=0.1", dedup=dedup
    )
    return open_job(options)


def _make(work: Path, rows: int, unit_rows: int, dedup: str) -> None:
    """A workspace whose units look staged."""
    job = _job(work, dedup)
    workspace = job.workspace
    workspace.create()
    list_corpus(job)
    real = next(iter(read_units(workspace)))
    stage_unit(real, job)
    staged = pa.ipc.open_file(str(unit_files(workspace, real.key)["arrow"])).read_all()
    draw = np.random.default_rng(0)
    template = staged.take(pa.array(draw.integers(0, len(staged), unit_rows)))
    units = []
    for number in range(rows // unit_rows):
        key = hashlib.blake2b(b"%d" % number, digest_size=16).hexdigest()
        table = _sidecar(template, number, draw)
        write_table(workspace, unit_files(workspace, key)["arrow"], table)
        units.append(Unit(key, number * unit_rows, (number + 1) * unit_rows, unit_rows))
    columns = pa.Table.from_pylist([unit._asdict() for unit in units])
    write_table(workspace, workspace.unit_table, columns)


def _sidecar(template: pa.Table, number: int, draw: np.random.Generator) -> pa.Table:
    """The rows of one unit, in key order."""
    rows = len(template)
    fingerprints = draw.integers(0, 256, (rows, 16), np.uint8)
    # Some are of a few small numbers, which repeat over all units.
    again = draw.integers(0, rows, rows // _DUPLICATES)
    fingerprints[again] = 0
    fingerprints[again, 0] = draw.integers(0, 256, len(again))
    fingerprints[again, 1] = number >> 10 & 255
    columns: dict[str, Any] = {
        "key": np.sort(draw.integers(0, 1 << 64, rows, np.uint64)),
        "id_hash": draw.integers(0, 1 << 64, rows, np.uint64),
        "record_id": [f"part-{number:06d}/{row:06d}.jpg" for row in range(rows)],
        "label": [f"class-{one:04d}" for one in draw.integers(0, _CLASSES, rows)],
        "fingerprint": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), rows, [None, pa.py_buffer(fingerprints.tobytes())]
        ),
    }
    if "perceptual_hash" in template.column_names:
        columns |= looks(rows, draw)
    for name, values in columns.items():
        field = template.schema.field(name)
        column = values if isinstance(values, pa.Array) else pa.array(values, field.type)
        template = template.set_column(template.schema.get_field_index(name), field, column)
    return template


def looks(rows: int, draw: np.random.Generator) -> dict[str, Any]:
    """Random hashes, whose views differ from the whole in some bits, and random thumbnails."""
    own = draw.integers(0, 1 << 64, (rows, 1), np.uint64)
    flips = np.uint64(1) << draw.integers(0, CODE_BITS, (_VIEW_FLIPS, rows, VIEWS), np.uint64)
    flips[:, :, 0] = 0
    codes = own ^ np.bitwise_xor.reduce(flips)
    weak = draw.permuted(np.tile(BAND_POSITIONS, (rows, 1, 1)), axis=2)[:, :, :WEAK_BITS]
    hashes = np.concatenate(
        [
            codes.astype(">u8").view(np.uint8).reshape(rows, CODES_BYTES),
            draw.integers(0, 256, (rows, CERTAINTY_BYTES), np.uint8),
            weak.astype(np.uint8).reshape(rows, -1),
        ],
        axis=1,
    )
    thumbnails = draw.integers(0, 256, (rows, THUMBNAIL_BYTES), np.uint8)
    copies = rows // _DUPLICATES
    hashes[-copies:] = hashes[:copies]
    hashes[-copies:, 7] ^= 8  # bit 60, which is in no band
    thumbnails[-copies:] = thumbnails[:copies] ^ 1
    return {"perceptual_hash": fixed_binary(hashes), "thumbnail": fixed_binary(thumbnails)}


def _plan(work: Path, dedup: str) -> dict[str, Any]:
    job = _job(work, dedup)
    workspace = job.workspace
    summaries = [
        UnitSummary(unit.key, unit.end - unit.start, unit.end - unit.start, {}, {}, False)
        for unit in read_units(workspace)
    ]
    begun = time.perf_counter()
    specs = plan_shards(summaries, job)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    sidecars = sum(path.stat().st_size for path in Path(str(workspace.units)).glob("*.arrow"))
    return {
        "units": len(summaries),
        "shards": len(specs),
        "kept": sum(spec.records for spec in specs),
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mib": usage.ru_maxrss >> 10,
        "sidecar_bytes": sidecars,
    }


if __name__ == "__main__":
    main()
