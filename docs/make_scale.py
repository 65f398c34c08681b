"""Writes docs/scale.md from the cost function of the product: `python docs/make_scale.py`.

The page is written in scale.md.jinja. The constants here are assumptions or measurements, each with
its source; everything else follows.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from beam_jobs import bounds
from beam_jobs.corpus.listing import LEAST_PIECE, MOST_RUNS
from beam_jobs.stages.plan.merge_levels import (
    LIMITS,
    MAX_LEVELS,
    OBJECT_STORE,
    RANGE_BYTES,
    RECORD_BYTES,
    ROW_BYTES,
    SHARD_BYTES,
    WORKER_HOUR_DOLLARS,
    Level,
    MergeWork,
    Merging,
    StageTraffic,
    choose_levels,
    ranges_of,
    shuffle_traffic,
    usual_work,
)
from shard_format.fingerprint_files import item_parts
from shard_format.index_parts import PART_ROWS

PAGE = Path(__file__).parent / "scale.md"

MERGING = Merging(OBJECT_STORE, LIMITS, MAX_LEVELS)
MIB, TB = 1 << 20, 10**12
LISTED_BYTES = 150  # of an image in the listing
LISTED_SECONDS = 51e-6  # of an image: list_corpus of 200,000 files, see the page
# Small ones: hashes twice, units, and what is said of the listing and of the units.
PIECE_FILES = 6
PAGE_OBJECTS = 1000  # objects in one answer of a listing, which costs as much as a write
# Measured on one machine.
STAGE_BYTES_PER_SECOND = 13.5e6  # of a core: 968 images/s of 28 kB on two
PLANNED_ROW_BYTES = 105  # that rounds of planning write for a record
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
PLANNING = json.loads((RESULTS / "planning.json").read_text(encoding="utf-8"))
ROUNDS = json.loads((RESULTS / "planning_rounds.json").read_text(encoding="utf-8"))
COMMITTING = json.loads((RESULTS / "committing.json").read_text(encoding="utf-8"))
COSTS = PLANNING["costs"]  # of planning, by one worker
PROGRESS_SECONDS = 2.0  # between two reports of a worker
STORED_DOLLARS = 0.02 / 30 / 24  # of a GB for an hour

WORKERS = {1: 64, 10: 256, 100: 1024}  # by terabytes
SIZES = {"10 M": 1, "1 B": 100, "10 B": 1000}  # terabytes by images
MACHINES = {"one machine of 16 cores": 16, "100 workers": 100}


class Stage(NamedTuple):
    """One row of a table.

    Attributes:
        name: Name of the stage.
        traffic: What it asks of the storage.
        tasks: How many workers can share it.
        busy_seconds: Seconds of all workers together, without waiting for requests.
    """

    name: str
    traffic: StageTraffic
    tasks: int
    busy_seconds: float

    def seconds(self, workers: int) -> float:
        """The time it takes, requests included."""
        waiting = self.traffic.requests * OBJECT_STORE.seconds / OBJECT_STORE.in_flight
        return (self.busy_seconds + waiting) / min(workers, self.tasks)

    @property
    def dollars(self) -> float:
        """The cost of its requests."""
        reads, writes = OBJECT_STORE.read_dollars, OBJECT_STORE.write_dollars
        return self.traffic.reads * reads + self.traffic.writes * writes


def work_of(terabytes: float) -> MergeWork:
    """The work that is left of a corpus of images of 100 kB once it is staged."""
    return usual_work(int(terabytes * TB))


def stages_of(work: MergeWork, levels: tuple[Level, ...]) -> list[Stage]:
    """Every stage, in order."""
    size = work.payload_bytes
    stages = list(_listing(work.records))
    stages.append(Stage("stage", staging_traffic(work), work.units, size / STAGE_BYTES_PER_SECOND))
    copying = OBJECT_STORE.bytes_per_second
    tasks = [level.groups * level.buckets for level in levels]
    for number, (name, traffic) in enumerate(shuffle_traffic(work, levels, MERGING).items()):
        if name == "plan":
            stages += _planning(work, levels, traffic)
        else:
            count = tasks[number - 1] if name.startswith("merge") else work.shards
            stages.append(Stage(name, traffic, count, size / copying))
    return [*stages, *_committing(work)]


def staging_traffic(work: MergeWork) -> StageTraffic:
    """What staging asks of the storage, of images that are an object each."""
    # Of a unit the owner, what is known of it, and its part of the listing; and its four files.
    size = work.payload_bytes
    return StageTraffic(work.records + 3 * work.units, 4 * work.units, size, size + work.row_bytes)


def _committing(work: MergeWork) -> Iterator[Stage]:
    """The parts of the index and what belongs to them by all workers; the rest by one."""
    parts = -(-work.records // PART_ROWS)
    written = -(-work.row_bytes // OBJECT_STORE.write_bytes)
    # Of a shard its description and its rows of the index. A part is read again for its table, and
    # that and the notes for their checksums.
    reads, writes = 2 * work.shards + 2 * written + 4 * parts, 2 * written + parts
    read_bytes, written_bytes = 3 * work.row_bytes, 2 * work.row_bytes
    seconds = work.records * COMMITTING["row_microseconds"] / 1e6
    pieces = 1 + _later_pieces(work.records)
    if pieces > 1:  # the list of items, from the hashes of every piece
        hashes, lists = 8 * work.records, item_parts(work.records)
        reads += lists * (pieces + 2) + hashes // OBJECT_STORE.read_bytes
        writes += lists + hashes // OBJECT_STORE.write_bytes
        read_bytes, written_bytes = read_bytes + 2 * hashes, written_bytes + hashes
        seconds += work.records * COMMITTING["items"]["microseconds"] / 1e6
    traffic = StageTraffic(reads, writes, read_bytes, written_bytes)
    yield Stage("parts", traffic, parts, seconds)
    seconds = work.shards * COMMITTING["shard_microseconds"] / 1e6
    # The folder of the set is listed, one page after the other.
    pages = work.shards // PAGE_OBJECTS
    seconds += pages * OBJECT_STORE.seconds
    yield Stage("commit", StageTraffic(parts, 10 + pages, 0, 0), 1, seconds)


def _listing(records: int) -> Iterator[Stage]:
    """Listing by one worker, and behind its bound by all of them, in pieces."""
    first = min(records, bounds.LISTED_FILES)
    for name, files in (("list", first), ("list pieces", records - first)):
        if not files:
            continue
        listed = files * LISTED_BYTES
        parts = -(-listed // OBJECT_STORE.write_bytes)
        pages = -(-files // PAGE_OBJECTS)
        tasks = 1 if name == "list" else _later_pieces(records)
        small = 0 if name == "list" else tasks * PIECE_FILES
        reads, writes = 2 * parts + small, pages + parts + small
        traffic = StageTraffic(reads, writes, 0, listed)
        yield Stage(name, traffic, tasks, files * LISTED_SECONDS)


def _later_pieces(records: int) -> int:
    """Number of pieces behind the first one."""
    files = records - min(records, bounds.LISTED_FILES)
    least = max(1, bounds.LISTED_FILES // LEAST_PIECE)
    # Of one folder; those that are estimated to be larger are divided again.
    return max(-(-files // bounds.LISTED_FILES), min(MOST_RUNS, -(-files // least)))


def _planning(work: MergeWork, levels: tuple[Level, ...], at_once: StageTraffic) -> Iterator[Stage]:
    """Planning by one worker, or in rounds by all of them, with one that decides in between."""
    ranges = ranges_of(work.payload_bytes)
    if ranges == 1:
        microseconds = work.records * COSTS["row_microseconds"]
        seconds = (microseconds + work.units * COSTS["unit_microseconds"]) / 1e6
        yield Stage("plan", at_once, 1, seconds)
        return
    traffic = planning_traffic(work, ranges, levels[0].groups)
    copied = (traffic.read_bytes + traffic.written_bytes) / OBJECT_STORE.bytes_per_second
    busy = copied + work.records * ROUNDS["row_microseconds"] / 1e6
    yield Stage("plan", traffic, ranges, busy)
    decided = work.records * ROUNDS["decide_microseconds"] / 1e6
    yield Stage("decide", StageTraffic(0, 0, 0, 0), 1, decided)


def planning_traffic(work: MergeWork, ranges: int, groups: int) -> StageTraffic:
    """What planning in rounds asks of the storage, of a job that finds exact duplicates.

    Args:
        work: The corpus.
        ranges: Number of ranges of units, and of hashes.
        groups: Groups of the first merge level, each with a recipe.
    """
    rows = work.row_bytes
    # Sidecars are read once for their columns, and once more where they have repeated records.
    reads = 2 * work.units
    # Five exchanges, from each range to each: fingerprints, repeats, members, outcomes, keys.
    slices = 5 * ranges**2
    # Each task reads what is decided; those of units which these are, five of them the columns,
    # three of them the splits, one which records are kept for others; the keys of two splits where
    # shards begin; those that receive slices where these are. Columns are read again for a
    # checksum, and clusters twice. Previews of 200 clusters are not worth counting.
    reads += slices + ranges * (10 + 2 * 6 + 5 + 3 + 1 + 2 + 5 + 1 + 2)
    # Each task, and the one worker before each round and at the end, asks who owns the output.
    reads += 10 * (ranges + 1) + 1
    # At the end, one worker reads how many records shards have; and what is decided before each
    # round.
    reads += 1 + 10
    # Fingerprints, columns, repeats, members, clusters, outcomes, rows of the duplicates, kept
    # records and their splits, splits three times, keys. The decisions of each round, where the
    # slices of eight exchanges are, the units, and the plan.
    writes = 13 * ranges + groups + 10 + 8 + 6
    sent = work.records * PLANNED_ROW_BYTES
    return StageTraffic(reads, writes, rows + 4 * sent, sent)


def page() -> str:
    """The content of docs/scale.md."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE.parent),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    environment.filters |= {
        "amount": "{:,}".format,
        "count": _count,
        "dollars": _dollars,
        "size": _size,
        "time": _time,
        "wrapped": _wrapped,
    }
    figures = [list(_figures(work_of(terabytes))) for terabytes in SIZES.values()]
    names = [name for name, _ in figures[0]]
    values = zip(*([value for _, value in column] for column in figures), strict=True)
    works = [work_of(terabytes) for terabytes in (0.001, 0.01, 0.1, *WORKERS)]
    return environment.get_template("scale.md.jinja").render(
        builds=[_build(terabytes, workers) for terabytes, workers in WORKERS.items()],
        committing=COMMITTING,
        costs=COSTS,
        figures=list(zip(names, values, strict=True)),
        largest=works[-1],
        levels=[{"work": work, "levels": choose_levels(work, MERGING)} for work in works],
        limits=LIMITS,
        listed_files=bounds.LISTED_FILES,
        listed_seconds=LISTED_SECONDS,
        mib=MIB,
        planning=PLANNING,
        rounds=ROUNDS,
        range_bytes=RANGE_BYTES,
        record_bytes=RECORD_BYTES,
        row_bytes=ROW_BYTES,
        shard_bytes=SHARD_BYTES,
        sizes=list(SIZES),
        stage_bytes_per_second=STAGE_BYTES_PER_SECOND,
        store=OBJECT_STORE,
        unit_bytes=work_of(1).payload_bytes // work_of(1).units,
        worker_hour_dollars=WORKER_HOUR_DOLLARS,
    )


def _figures(work: MergeWork) -> Iterator[tuple[str, str]]:
    levels = choose_levels(work, MERGING)
    stages = stages_of(work, levels)
    yield "corpus", _size(work.payload_bytes)
    yield "units", f"{work.units:,}"
    yield "shards", f"{work.shards:,}"
    yield "merge levels", str(len(levels))
    yield "objects while it is built", f"{_objects(work, levels):,}"
    yield "sidecars, and again the index", _size(work.row_bytes)
    yield "ranges that are planned", f"{ranges_of(work.payload_bytes):,}"
    plan = [stage for stage in stages if stage.name in ("plan", "decide")]
    for name, workers in MACHINES.items():
        yield f"{name}: planning", _time(sum(stage.seconds(workers) for stage in plan))
    yield "memory of the largest process that plans", _size(planner_bytes(work))
    commit = [stage for stage in stages if stage.name in ("parts", "commit")]
    for name, workers in MACHINES.items():
        yield f"{name}: parts and commit", _time(sum(stage.seconds(workers) for stage in commit))
    yield "memory of the process that commits", _size(commit_bytes(work))
    yield "requests", _count(sum(stage.traffic.requests for stage in stages))
    for name, workers in MACHINES.items():
        seconds = sum(stage.seconds(workers) for stage in stages)
        busy = _busy(stages, workers)
        dollars = sum(stage.dollars for stage in stages) + busy / 3600 * WORKER_HOUR_DOLLARS
        yield f"{name}: time", _time(seconds)
        yield f"{name}: dollars", _dollars(dollars)


def planner_bytes(work: MergeWork) -> int:
    """Memory of the process that plans, or of the largest one."""
    if ranges_of(work.payload_bytes) > 1:
        large = ROUNDS["plans"][-1]
        decides = ROUNDS["decide_base_mib"] * MIB + work.units * ROUNDS["decide_unit_bytes"]
        return max(large["task_peak_mib"] * MIB, round(decides))
    base = COSTS["base_mib"] * MIB
    return round(base + work.records * COSTS["row_bytes"] + work.units * COSTS["unit_bytes"])


def commit_bytes(work: MergeWork) -> int:
    """Memory of the process that commits."""
    base, shard_bytes = COMMITTING["commit_base_mib"] * MIB, COMMITTING["shard_bytes"]
    return round(base + work.shards * shard_bytes)


def _objects(work: MergeWork, levels: tuple[Level, ...]) -> int:
    """Four of each unit, two of a run, a recipe of each first run or shard, three of a shard."""
    runs = sum(level.groups * level.buckets for level in levels)
    recipes = levels[0].groups if levels else work.shards
    return 4 * work.units + 2 * runs + recipes + 3 * work.shards


def _build(terabytes: int, workers: int) -> dict[str, Any]:
    """The numbers of a build for the page."""
    work = work_of(terabytes)
    levels = choose_levels(work, MERGING)
    stages = stages_of(work, levels)
    blocks, gigabytes = work.payload_bytes / (8 * MIB), work.payload_bytes / 1e9
    seconds = sum(stage.seconds(workers) for stage in stages)
    kinds = ("plan", "decide", "merge", "shard")
    shuffle = [one for one in stages if one.name.startswith(kinds)]
    merging = [one for one in shuffle if one.name.startswith("merge")]
    # A worker is paid while it works. While one plans or commits, an engine that scales keeps one.
    busy = _busy(stages, workers)
    reports = int(busy / PROGRESS_SECONDS)
    direct = shuffle_traffic(work, (), MERGING)["shard"]
    return {
        "terabytes": terabytes,
        "workers": workers,
        "stages": stages,
        "blocks": blocks,
        "requests_per_block": sum(one.traffic.requests for one in shuffle) / blocks,
        "seconds": seconds,
        "requests_dollars": sum(stage.dollars for stage in stages),
        "reports": reports,
        "progress_dollars": reports * OBJECT_STORE.write_dollars,
        "busy_seconds": busy,
        "worker_dollars": busy / 3600 * WORKER_HOUR_DOLLARS,
        "stored_dollars": gigabytes * (len(levels) + 1) * seconds / 3600 * STORED_DOLLARS,
        "merging_dollars": sum(one.dollars for one in merging)
        + _busy(merging, workers) / 3600 * WORKER_HOUR_DOLLARS,
        "direct_reads": direct.reads,
        "direct_dollars": direct.reads * OBJECT_STORE.read_dollars,
        "direct_seconds": direct.reads * OBJECT_STORE.seconds / OBJECT_STORE.in_flight / workers,
    }


def _busy(stages: list[Stage], workers: int) -> float:
    """Seconds of all workers together."""
    return sum(stage.seconds(workers) * min(workers, stage.tasks) for stage in stages)


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


def _wrapped(text: str, bullet: str = "") -> str:
    """A paragraph, or an item of a list, in lines of the width of the other pages."""
    return (
        textwrap.fill(
            " ".join(text.split()),
            119,
            initial_indent=bullet,
            subsequent_indent=" " * len(bullet),
            break_on_hyphens=False,
        )
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
