"""Planning in rounds: `python -m benchmarks.planning_rounds [--millions 2,20,200] [--dedup near]`.

The sidecars are made up, with the columns that planning reads: 1,000 rows a unit, one record in a
hundred with the fingerprint of another one. Tasks are done by worker processes, and what is decided
between two rounds by another process, as on a cluster. Memory is that of the largest of them; the
time of a row is that of all tasks together. docs/make_scale.py takes the results.

With `--dedup near` rows have the hashes and thumbnails of `benchmarks.planning`, and the results
are printed only.
"""

from __future__ import annotations

import math
import resource
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.build import open_job
from beam_jobs.job_context import JobContext
from beam_jobs.memory import release_memory
from beam_jobs.options import ImageOptions
from beam_jobs.stages.plan.merge_levels import LIMITS, MAX_LEVELS, OBJECT_STORE, Merging
from beam_jobs.stages.plan.spread import (
    RangeResult,
    RangeTask,
    begin_rounds,
    decide_round,
    do_round,
    round_names,
)
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.units import Unit, read_units, unit_files
from beam_jobs.workspace import write_table
from benchmarks.measure import parser, write
from benchmarks.planning import looks

_UNIT_ROWS = 1000
_CLASSES = 1000
_DUPLICATES = 100  # one in so many
_WORKERS = 2
_RECORD_BYTES = 100_000


def main() -> None:
    """Plans each size, writes the results."""
    options = parser("planning_rounds", __doc__, turns=False)
    options.add_argument("--millions", default="2,20,200", help="rows of each corpus")
    options.add_argument("--dedup", default="exact", choices=("exact", "near"))
    options.add_argument("--range-rows", type=int, default=2_000_000, help="rows of a range")
    arguments = options.parse_args()
    plans = []
    for size in arguments.millions.split(","):
        rows = int(1e6 * float(size))
        ranges = max(2, rows // arguments.range_rows)
        job = _Job(arguments.work / "planning-rounds", ranges, arguments.dedup)
        plans.append(_measured(job, rows))
        print({name: value for name, value in plans[-1].items() if name != "rounds"}, flush=True)
        for one in plans[-1]["rounds"]:
            print("   ", one, flush=True)
    if arguments.dedup == "near":
        return
    small, large = plans[0], plans[-1]
    more_mib = large["decide_peak_mib"] - small["decide_peak_mib"]
    unit_mib = more_mib / (large["units"] - small["units"])
    grown = math.log(large["task_seconds"] / small["task_seconds"])
    write(
        "planning_rounds",
        {
            "plans": plans,
            "exponent": round(grown / math.log(large["rows"] / small["rows"]), 3),
            "row_microseconds": round(1e6 * large["task_seconds"] / large["rows"], 2),
            "decide_microseconds": round(1e6 * large["decide_seconds"] / large["rows"], 3),
            "decide_unit_bytes": round(unit_mib * 2**20),
            "decide_base_mib": round(small["decide_peak_mib"] - small["units"] * unit_mib),
        },
    )


class _Job(NamedTuple):
    """A job that a process makes for itself.

    Attributes:
        work: Folder of the corpus and the set.
        ranges: Number of ranges.
        dedup: Which duplicates are found.
    """

    work: Path
    ranges: int
    dedup: str

    def open(self) -> tuple[JobContext, Merging]:
        """Returns its context, and how it merges."""
        options = ImageOptions(
            ("none",),
            str(self.work / "set"),
            split="train=0.9,test=0.1",
            dedup=self.dedup,
            workers=1,
        )
        return open_job(options), Merging(OBJECT_STORE, LIMITS, MAX_LEVELS, self.ranges)


class _Measured(NamedTuple):
    """What a process did.

    Attributes:
        value: What it returned.
        seconds: How long it took.
        cpu_seconds: Seconds of processors in that time.
        peak_mib: The most memory of the process so far.
    """

    value: Any
    seconds: float
    cpu_seconds: float
    peak_mib: int


def _timed(work: Any, job: _Job, argument: Any) -> _Measured:
    begun, busy = time.perf_counter(), time.process_time()
    value = work(argument, *job.open())
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - busy
    release_memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return _Measured(value, seconds, cpu_seconds, peak)


def _begin(_: None, context: JobContext, merging: Merging) -> list[RangeTask]:
    summaries = [
        UnitSummary(unit.key, unit.end - unit.start, unit.end - unit.start, {}, {}, False)
        for unit in read_units(context.workspace)
    ]
    return begin_rounds(summaries, context, merging)


def _measured(job: _Job, rows: int) -> dict[str, Any]:
    shutil.rmtree(job.work, ignore_errors=True)
    spawned = get_context("spawn")
    with ProcessPoolExecutor(_WORKERS, spawned) as pool, ProcessPoolExecutor(1, spawned) as one:
        units = rows // _UNIT_ROWS
        context, _ = job.open()
        context.workspace.create()
        made = list(pool.map(partial(_make_unit, job), range(units), chunksize=64))
        table = pa.Table.from_pylist([unit._asdict() for unit in made])
        write_table(context.workspace, context.workspace.unit_table, table)
    with ProcessPoolExecutor(_WORKERS, spawned) as pool, ProcessPoolExecutor(1, spawned) as one:
        begun = time.perf_counter()
        decided = one.submit(_timed, _begin, job, None).result()
        decide_seconds, rounds, task_peak = decided.seconds, [], 0
        names = round_names(context)
        for name in names:
            tasks: list[RangeTask] = decided.value
            done = list(pool.map(partial(_timed, do_round, job), tasks))
            results: list[RangeResult] = [each.value for each in done]
            decided = one.submit(_timed, decide_round, job, results).result()
            decide_seconds += decided.seconds
            task_peak = max(task_peak, *(each.peak_mib for each in done))
            rounds.append(
                {
                    "name": name,
                    "task_seconds": round(sum(each.seconds for each in done), 1),
                    "cpu_seconds": round(sum(each.cpu_seconds for each in done), 1),
                    "peak_mib": max(each.peak_mib for each in done),
                    "longest": round(max(each.seconds for each in done), 2),
                    "decide_seconds": round(decided.seconds, 2),
                }
            )
        seconds = time.perf_counter() - begun
    written = sum(path.stat().st_size for path in Path(str(context.workspace.plan)).iterdir())
    shutil.rmtree(job.work)
    return {
        "rows": rows,
        "units": units,
        "ranges": job.ranges,
        "seconds": round(seconds, 1),
        "task_seconds": round(sum(each["task_seconds"] for each in rounds), 1),
        "cpu_seconds": round(sum(each["cpu_seconds"] for each in rounds), 1),
        "decide_seconds": round(decide_seconds, 1),
        "task_peak_mib": task_peak,
        "decide_peak_mib": decided.peak_mib,
        "row_bytes": round(written / rows, 1),
        "rounds": rounds,
    }


def _make_unit(job: _Job, number: int) -> Unit:
    """Writes the sidecar of a unit that looks staged."""
    draw = np.random.default_rng(number)
    key = draw.bytes(16).hex()
    fingerprints = draw.integers(0, 256, (_UNIT_ROWS, 16), np.uint8)
    # Some are of a few small numbers, which repeat over all units.
    again = draw.integers(0, _UNIT_ROWS, _UNIT_ROWS // _DUPLICATES)
    fingerprints[again] = 0
    fingerprints[again, 0] = draw.integers(0, 256, len(again))
    fingerprints[again, 1:3] = number >> 10 & 255, number >> 18
    numbers = pc.cast(pa.array(np.arange(_UNIT_ROWS) + 10**6), pa.string())
    classes = pc.cast(pa.array(draw.integers(0, _CLASSES, _UNIT_ROWS)), pa.string())
    table = pa.table(
        {
            "key": np.sort(draw.integers(0, 1 << 64, _UNIT_ROWS, np.uint64)),
            "id_hash": draw.integers(0, 1 << 64, _UNIT_ROWS, np.uint64),
            "offset": np.arange(_UNIT_ROWS) * _RECORD_BYTES,
            "length": np.full(_UNIT_ROWS, _RECORD_BYTES),
            "record_id": pc.binary_join_element_wise(f"part-{number:06d}", numbers, "/"),
            "label": pc.binary_join_element_wise("class", classes, "-"),
            "fingerprint": pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(16), _UNIT_ROWS, [None, pa.py_buffer(fingerprints.tobytes())]
            ),
            "group": pa.nulls(_UNIT_ROWS, pa.uint64()),
            "split": pa.nulls(_UNIT_ROWS, pa.string()),
            "not_enlarged": np.zeros(_UNIT_ROWS, bool),
            **(looks(_UNIT_ROWS, draw) if job.dedup == "near" else {}),
        }
    )
    workspace = job.open()[0].workspace
    write_table(workspace, unit_files(workspace, key)["arrow"], table)
    return Unit(key, number * _UNIT_ROWS, (number + 1) * _UNIT_ROWS, _UNIT_ROWS)


if __name__ == "__main__":
    main()
