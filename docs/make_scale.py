"""Writes docs/scale.md from the cost function of the product: `python docs/make_scale.py`.

The constants here are assumptions or measurements, each with its source; everything else follows.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from beam_jobs.stages.plan.merge_levels import (
    LIMITS,
    MAX_LEVELS,
    OBJECT_STORE,
    RECORD_BYTES,
    ROW_BYTES,
    SHARD_BYTES,
    UNIT_BYTES,
    WORKER_HOUR_DOLLARS,
    Level,
    Merging,
    Traffic,
    Work,
    choose_levels,
    shuffle_traffic,
    usual_work,
)

PAGE = Path(__file__).parent / "scale.md"

MERGING = Merging(OBJECT_STORE, LIMITS, MAX_LEVELS)
MIB, TB = 1 << 20, 10**12
LISTED_BYTES = 150  # of an image in the listing
PAGE_OBJECTS = 1000  # objects in one answer of a listing, which costs as much as a write
# Measured on one machine.
STAGE_BYTES_PER_SECOND = 13.5e6  # of a core: 968 images/s of 28 kB on two
COMMIT_SECONDS = 3e-6  # of a record
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "planning.json"
PLANNING = json.loads(RESULTS.read_text(encoding="utf-8"))
COSTS = PLANNING["costs"]  # of planning, by one worker
PROGRESS_SECONDS = 2.0  # between two reports of a worker
STORED_DOLLARS = 0.02 / 30 / 24  # of a GB for an hour

WORKERS = {1: 64, 10: 256, 100: 1024}  # by terabytes
SIZES = {"10 M": 1, "1 B": 100, "10 B": 1000}  # terabytes by images
MACHINES = {"one machine of 16 cores": 16, "100 workers": 100}


class Stage(NamedTuple):
    """One row of a table.

    Attributes:
        name: Of the stage.
        traffic: What it asks of the storage.
        tasks: How many workers can share it.
        busy_seconds: Of all workers together, without waiting for requests.
    """

    name: str
    traffic: Traffic
    tasks: int
    busy_seconds: float

    def seconds(self, workers: int) -> float:
        """How long it takes, requests included."""
        waiting = self.traffic.requests * OBJECT_STORE.seconds / OBJECT_STORE.in_flight
        return (self.busy_seconds + waiting) / min(workers, self.tasks)

    @property
    def dollars(self) -> float:
        """Of its requests."""
        reads, writes = OBJECT_STORE.read_dollars, OBJECT_STORE.write_dollars
        return self.traffic.reads * reads + self.traffic.writes * writes


def work_of(terabytes: float) -> Work:
    """What a corpus of images of 100 kB is once it is staged."""
    return usual_work(int(terabytes * TB))


def stages_of(work: Work, levels: tuple[Level, ...]) -> list[Stage]:
    """Every stage, in order."""
    size, rows = work.payload_bytes, work.row_bytes
    listed = work.records * LISTED_BYTES
    parts = -(-listed // OBJECT_STORE.write_bytes)
    pages = -(-work.records // PAGE_OBJECTS)
    found = [Stage("list", Traffic(parts, pages + parts, 0, listed), 1, 0.0)]
    # The owner, what is known of the unit, three looks into the listing; two files are read again
    # for their checksums.
    reads = work.records + work.units * 7
    staged = Traffic(reads, work.units * 4, size, size + rows)
    found.append(Stage("stage", staged, work.units, size / STAGE_BYTES_PER_SECOND))
    copying = OBJECT_STORE.bytes_per_second
    tasks = [level.groups * level.buckets for level in levels]
    for number, (name, traffic) in enumerate(shuffle_traffic(work, levels, MERGING).items()):
        if name == "plan":
            microseconds = work.records * COSTS["row_microseconds"]
            seconds = (microseconds + work.units * COSTS["unit_microseconds"]) / 1e6
            found.append(Stage(name, traffic, 1, seconds))
        else:
            count = tasks[number - 1] if name.startswith("merge") else work.shards
            found.append(Stage(name, traffic, count, size / copying))
    committed = Traffic(
        2 * work.shards + work.units, -(-rows // OBJECT_STORE.write_bytes), rows, rows
    )
    found.append(Stage("commit", committed, 1, work.records * COMMIT_SECONDS))
    return found


def page() -> str:
    """The content of docs/scale.md."""
    lines = [*_introduction(), *_levels_table(), "", *_sizes(), *_chapters(), *_memory()]
    return "\n".join(lines)


def _levels_table() -> Iterator[str]:
    yield "| corpus | images | units | shards | units x shards | levels (groups x buckets) |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for terabytes in (0.001, 0.01, 0.1, *WORKERS):
        work = work_of(terabytes)
        levels = choose_levels(work, MERGING)
        shown = ", ".join(f"{level.groups:,} x {level.buckets:,}" for level in levels) or "none"
        yield (
            f"| {_size(work.payload_bytes)} | {work.records:,} | {work.units:,} | {work.shards:,} "
            f"| {work.units * work.shards:,} | {shown} |"
        )


def _sizes() -> Iterator[str]:
    """Builds of some sizes, on one machine and on many."""
    yield "## 10 million, 1 billion and 10 billion images\n"
    rows: dict[str, list[str]] = {}
    for terabytes in SIZES.values():
        for name, value in _figures(work_of(terabytes)):
            rows.setdefault(name, []).append(value)
    yield f"| | {' | '.join(SIZES)} |"
    yield f"| --- |{' ---: |' * len(SIZES)}"
    for name, values in rows.items():
        yield f"| {name} | {' | '.join(values)} |"
    yield ""
    yield _wrapped(
        "Both read the corpus from an object store and keep everything there. The planner is one "
        "process of either. Dollars are those of requests and of the cores.\n"
    )


def _figures(work: Work) -> Iterator[tuple[str, str]]:
    levels = choose_levels(work, MERGING)
    stages = stages_of(work, levels)
    yield "corpus", _size(work.payload_bytes)
    yield "units", f"{work.units:,}"
    yield "shards", f"{work.shards:,}"
    yield "merge levels", str(len(levels))
    yield "objects while it is built", f"{_objects(work, levels):,}"
    yield "sidecars, and again the index", _size(work.row_bytes)
    plan = next(stage for stage in stages if stage.name == "plan")
    yield "time of planning", _time(plan.seconds(1))
    yield "memory of the planner", _size(planner_bytes(work))
    yield "requests", _count(sum(stage.traffic.requests for stage in stages))
    for name, workers in MACHINES.items():
        seconds = sum(stage.seconds(workers) for stage in stages)
        busy = sum(stage.seconds(workers) * min(workers, stage.tasks) for stage in stages)
        dollars = sum(stage.dollars for stage in stages) + busy / 3600 * WORKER_HOUR_DOLLARS
        yield f"{name}: time", _time(seconds)
        yield f"{name}: dollars", _dollars(dollars)


def planner_bytes(work: Work) -> int:
    """Memory of the process that plans."""
    base = COSTS["base_mib"] * MIB
    return round(base + work.records * COSTS["row_bytes"] + work.units * COSTS["unit_bytes"])


def _objects(work: Work, levels: tuple[Level, ...]) -> int:
    """Four of each unit, as many of a run, a recipe of each first run or shard, and the shards."""
    runs = sum(level.groups * level.buckets for level in levels)
    recipes = levels[0].groups if levels else work.shards
    return 4 * (work.units + runs) + recipes + work.shards


def _chapters() -> Iterator[str]:
    for terabytes, workers in WORKERS.items():
        work = work_of(terabytes)
        levels = choose_levels(work, MERGING)
        yield f"## {terabytes} TB on {workers:,} workers\n"
        yield from _chapter(work, levels, workers)
        yield ""


def _chapter(work: Work, levels: tuple[Level, ...], workers: int) -> Iterator[str]:
    stages = stages_of(work, levels)
    blocks = work.payload_bytes / (8 * MIB)
    yield "| stage | reads | writes | requests per 8 MiB | read | written | time | requests cost |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for stage in stages:
        traffic = stage.traffic
        yield (
            f"| {stage.name} | {_count(traffic.reads)} | {_count(traffic.writes)} "
            f"| {traffic.requests / blocks:.2f} | {_size(traffic.read_bytes)} "
            f"| {_size(traffic.written_bytes)} | {_time(stage.seconds(workers))} "
            f"| {_dollars(stage.dollars)} |"
        )
    seconds = sum(stage.seconds(workers) for stage in stages)
    shuffle = [one for one in stages if one.name.startswith(("plan", "merge", "shard"))]
    per_block = sum(one.traffic.requests for one in shuffle) / blocks
    requests = sum(stage.dollars for stage in stages)
    # A worker is paid while it works. While one plans or commits, an engine that scales keeps one.
    busy = sum(stage.seconds(workers) * min(workers, stage.tasks) for stage in stages)
    reports = int(busy / PROGRESS_SECONDS)
    progress = reports * OBJECT_STORE.write_dollars
    stored = work.payload_bytes / 1e9 * (len(levels) + 1) * seconds / 3600 * STORED_DOLLARS
    worker = busy / 3600 * WORKER_HOUR_DOLLARS
    merging = [one for one in shuffle if one.name.startswith("merge")]
    merged = sum(
        one.dollars + one.seconds(workers) * min(workers, one.tasks) / 3600 * WORKER_HOUR_DOLLARS
        for one in merging
    )
    direct = shuffle_traffic(work, (), MERGING)["shard"]
    saved = direct.reads * OBJECT_STORE.read_dollars
    waiting = direct.reads * OBJECT_STORE.seconds / OBJECT_STORE.in_flight / workers
    yield ""
    yield _wrapped(
        f"Planning, merging and sharding together: {per_block:.2f} requests for 8 MiB. In all "
        f"{_time(seconds)}; {_dollars(requests)} for requests, {_dollars(progress)} for "
        f"{_count(reports)} reports of progress, {_dollars(worker)} for {busy / 3600:,.0f} hours "
        f"of workers and {_dollars(stored)} for storing units and runs meanwhile. Merging is "
        f"{_dollars(merged)} of it. Without it, sharding would read {_count(direct.reads)} times: "
        f"{_dollars(saved)}, and {_time(waiting)} of waiting."
    )


def _size(size: float) -> str:
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return (
                f"{size / factor:,.3g} {unit}"
                if size < 1000 * factor
                else f"{size / factor:,.0f} {unit}"
            )
    return f"{size:,.0f} B"


def _count(number: float) -> str:
    return f"{number / 1e6:,.1f} M" if number >= 1e6 else f"{number:,.0f}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _dollars(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars < 100 else f"${dollars:,.0f}"


def _introduction() -> Iterator[str]:
    store = OBJECT_STORE
    yield "# Scale\n"
    yield _wrapped(
        "Generated by `python docs/make_scale.py` from the cost function of the product "
        "(`beam_jobs/stages/plan/merge_levels.py`); a test compares. What merge levels are, and "
        "why: decision [0017](decisions/0017-merge-levels.md).\n"
    )
    yield "This is arithmetic: nothing here ran at these sizes. The assumptions are\n"
    yield _item(
        f"images of {RECORD_BYTES // 1000} kB, one object each, staged to the same size, with "
        f"{ROW_BYTES} bytes of sidecar rows each; units of {UNIT_BYTES / MIB:.1f} MiB on average "
        f"and shards of {SHARD_BYTES // MIB} MiB, which are the defaults. From archives, staging "
        f"reads one range of {store.read_bytes // MIB} MiB where it reads "
        f"{store.read_bytes // RECORD_BYTES} objects here;"
    )
    yield _item(
        f"{store.seconds * 1000:.0f} ms for a request, {store.in_flight} in flight for each "
        f"worker, {store.bytes_per_second / 1e6:.0f} MB/s through a worker that merges or writes "
        f"shards; at most {store.read_bytes // MIB} MiB in a request that reads and "
        f"{store.write_bytes // MIB} MiB in one that writes;"
    )
    yield _item(
        "list prices of GCS and S3, as known in 2025 and not looked up again: "
        f"${store.read_dollars * 1e6:.2f} for a million reads, ${store.write_dollars * 1e6:.2f} "
        "for a million writes and pages of a listing, $0.02 for a GB and month; a worker, one "
        f"core with 3.75 GB, ${WORKER_HOUR_DOLLARS:.2f} an hour. Traffic within a region is free;"
    )
    yield _item(
        f"{STAGE_BYTES_PER_SECOND / 1e6:.1f} MB/s for each core that stages (968 images/s of "
        "28 kB on two cores, benchmarks/README.md);"
    )
    yield _item(
        f"{COMMIT_SECONDS * 1e6:.0f} us a record for the commit, by one worker (160,000 documents "
        "of 90 words, medians of three builds on two shared cores, 2026-11-22);"
    )
    yield _item(
        f"{COSTS['row_microseconds']:.1f} us a record and {COSTS['unit_microseconds']:,} us a unit "
        "for planning with exact duplicates, by one worker; near duplicates are not included. "
        f"{_plans()} (`python -m benchmarks.planning`, two cores, {PLANNING['date']}).\n"
    )


def _plans() -> str:
    """What was measured."""
    *plans, small = PLANNING["plans"]
    found = "; ".join(
        f"{plan['rows'] / 1e6:.0f} million rows in {plan['units']:,} units: "
        f"{plan['seconds']:.0f} s, {plan['peak_mib']:,} MiB"
        for plan in (*plans, small)
    )
    more = PLANNING["extrapolated"]
    return (
        f"Measured: {found}. Between the first and the third the time grows with the rows to the "
        f"power of {PLANNING['exponent']:.2f}, so {more['rows'] / 1e6:.0f} million would take "
        f"{_time(more['seconds'])}"
    )


def _memory() -> Iterator[str]:
    yield "## Memory and disk of a worker\n"
    yield _item(
        f"Merging and sharding: a block of {LIMITS.block_bytes // MIB} MiB, at most "
        f"{LIMITS.row_bytes // MIB} MiB of rows, which are there twice while they are sorted, and "
        f"ranges in flight: {LIMITS.memory_bytes(OBJECT_STORE) / 2**30:.1f} GiB at most. A run "
        "that is written waits on the local disk until it is whole: on the first level up to "
        f"{LIMITS.fan_in} units or {LIMITS.fan_in * UNIT_BYTES / 2**30:.1f} GiB, about a block on "
        "the others."
    )
    yield _item(
        f"Planning: {COSTS['row_bytes']:.1f} bytes for each record, {COSTS['unit_bytes']:,} for "
        f"each unit, and {COSTS['base_mib']:,} MiB. The sidecars are copied to its disk, each "
        f"in one request: {ROW_BYTES / RECORD_BYTES:.2%} of the corpus, "
        f"{_size(work_of(100).row_bytes)} for 100 TB.\n"
    )
    yield "## What does not scale\n"
    yield _wrapped(
        "One worker plans and one commits, so their time grows with the records, whatever the "
        "number of workers. Near duplicates take tens of bytes of memory for each record. Runs of "
        "all levels stay until the build ends.\n"
    )


def _wrapped(text: str) -> str:
    end = "\n" if text.endswith("\n") else ""
    return textwrap.fill(text, 119, break_on_hyphens=False) + end


def _item(text: str) -> str:
    end = "\n" if text.endswith("\n") else ""
    return (
        textwrap.fill(
            text, 119, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )
        + end
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
