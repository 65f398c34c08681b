"""What planning, merging and sharding really ask of a storage, counted."""

from __future__ import annotations

import contextlib
import io
import json
import random
import runpy
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from beam_jobs.options import TextOptions
from beam_jobs.stages.plan import list_duplicates
from beam_jobs.stages.plan.merge_levels import (
    OBJECT_STORE,
    Level,
    MergeLimits,
    MergeWork,
    Merging,
    shuffle_traffic,
)
from foundation import storage
from foundation.storage import Url
from foundation.storage.local import LocalStorage
from shard_format import load_manifest
from tests.beam_jobs.stages.merge.builds import Build, forced_levels

# What 8 MiB are on a bucket is 8 KiB here.
SMALL = 1 << 10
UNIT_SIZE = "16KiB"
LIMITS = MergeLimits((512 << 20) // SMALL, 1 << 20, fan_in=12, shard_inputs=4)
COST = OBJECT_STORE._replace(
    read_bytes=OBJECT_STORE.read_bytes // SMALL, write_bytes=OBJECT_STORE.write_bytes // SMALL
)


class CountedStorage:
    """Local files under URLs of their own; counts what would be requests to a bucket."""

    def __init__(self):
        self._local = LocalStorage()
        self._lock = threading.Lock()
        self.requests = Counter()

    def _count(self, what, number=1):
        with self._lock:
            self.requests[what] += number

    def read_ranges(self, place, ranges):
        ranges = list(ranges)
        self._count("read", sum(max(1, -(-size // COST.read_bytes)) for _, size in ranges))
        return self._local.read_ranges(_path(place), ranges)

    def open_input(self, place):
        self._count("read")
        return io.BytesIO(_path(place).read_bytes())

    def open_random(self, place):
        self._count("read")
        return self._local.open_random(_path(place))

    def stat(self, place):
        self._count("read")
        return self._local.stat(_path(place))

    @contextlib.contextmanager
    def create(self, place, *, durable, if_absent, scratch):
        path = _path(place)
        with self._local.create(
            path, durable=durable, if_absent=if_absent, scratch=path.parent
        ) as file:
            yield file
            size = file.tell()
        self._count("write", max(1, -(-size // COST.write_bytes)))

    def __getattr__(self, name):
        """Listing, making and deleting folders are free, or are no requests."""
        method = getattr(self._local, name)
        return lambda place, *rest: method(_path(place), *rest)


def _path(place):
    return Path(place.text.removeprefix("counted://"))


@pytest.fixture
def counted(monkeypatch):
    store = CountedStorage()
    monkeypatch.setitem(storage.STORAGES, "counted", store)
    return store


def two_levels(work, _):
    return Level(-(-work.units // 12), 1), Level(1, 2)


def requests_of(kind, corpus, out, counted, levels):
    """Builds a set; its work, its levels, and the requests of planning, merging and sharding."""
    merging = Merging(COST, LIMITS, 4)
    build = Build(kind.options(corpus, out, unit_size=UNIT_SIZE, num_shards=40), merging, levels)
    workspace = build.workspace
    workspace.units = Url(f"counted://{workspace.units}")
    workspace.runs = Url(f"counted://{workspace.runs}")
    counts = []

    def counted_since(result):
        counts.append(Counter(counted.requests))
        counted.requests.clear()
        return result

    counted_since(build.stage())
    plan = counted_since(build.plan())
    runs = counted_since(build.merge(plan)) if plan else counted_since(None)
    results = counted_since(build.shard(plan, runs))
    staged = [path for path in Path(out).glob(".shardmill/units/*") if path.stat().st_size]
    payload, rows = (
        sum(path.stat().st_size for path in staged if path.suffix == suffix)
        for suffix in (".tfrecord", ".arrow")
    )
    units = sum(summary.kept > 0 for summary in build.summaries)
    records = sum(result.info.records for result in results)
    build.commit(results)
    work = MergeWork(units, len(results), records, payload, rows)
    levels = [Level(*level) for level in plan.levels] if plan else []
    return work, levels, counts[1:], shuffle_traffic(work, levels, merging)


@pytest.mark.parametrize(
    "kind", ["image", pytest.param("text", marks=pytest.mark.proof)], indirect=True
)
def test_requests_are_within_the_bound_and_what_the_cost_function_says(kind, counted, tmp_path):
    corpus = kind.make(400)
    work, _, direct, _ = requests_of(kind, corpus, tmp_path / "direct", counted, lambda *_: ())
    _, levels, merged, model = requests_of(kind, corpus, tmp_path / "merged", counted, two_levels)
    hashes = {load_manifest(tmp_path / name).root_hash for name in ("direct", "merged")}
    assert len(hashes) == 1
    assert work.units > 30 and levels
    # Each unit is read once to plan, whatever the number of passes, and the sample of a tokenizer.
    assert direct[0]["read"] == merged[0]["read"] == work.units
    # Without runs: a sidecar and a range for every unit that a shard has records of.
    assert direct[2]["read"] > 1.5 * work.records
    # The model has what is read from the work folder too, which is local here: the owner and what
    # is known of a task, the plan, and recipes.
    first, second = (level.groups * level.buckets for level in levels)
    for prefix, here, local in (
        ("merge", merged[1], 2 * first + second),
        ("shard", merged[2], 3 * work.shards),
    ):
        stages = [one for name, one in model.items() if name.startswith(prefix)]
        reads = sum(one.reads for one in stages) - local
        assert 0.7 * reads < here["read"] <= 1.6 * reads
        assert here["write"] <= 1.3 * sum(one.writes for one in stages)
    total = sum(map(Counter.total, merged))
    assert total < 0.6 * sum(map(Counter.total, direct))
    bound = 4 * (work.payload_bytes + work.row_bytes) / 2**13 + 4 * (work.units + work.shards)
    assert total <= bound


@pytest.mark.parametrize(
    ("records", "ranges"),
    [(60, 2), pytest.param(200, 3, marks=pytest.mark.proof), (200, 8)],
)
@pytest.mark.parametrize(
    "kind", ["image", pytest.param("text", marks=pytest.mark.proof)], indirect=True
)
def test_requests_of_planning_in_rounds_are_what_the_page_says(
    records, ranges, kind, counted, repository, tmp_path, monkeypatch
):
    monkeypatch.setattr(list_duplicates, "_PREVIEWED_CLUSTERS", 1)  # of so few records
    corpus = kind.make(records)
    for path in list(corpus.rglob("*")):  # each range has duplicates in each other one
        if path.is_file():
            path.with_name(f"copy-of-{path.name}").write_bytes(path.read_bytes())
    options = kind.options(corpus, tmp_path / "set", unit_size="8KiB", num_shards=40)
    build = Build(options, Merging(COST, LIMITS, 4, ranges), two_levels)
    build.stage()
    workspace = build.workspace
    workspace.units = Url(f"counted://{workspace.units}")
    workspace.plan = Url(f"counted://{workspace.plan}")
    counted.requests.clear()
    plan = build.plan()
    units = sum(summary.kept > 0 for summary in build.summaries)
    model = runpy.run_path(str(repository / "docs" / "make_scale.py"))["planning_traffic"](
        MergeWork(units, 40, 2 * records, 0, 0), ranges, len(plan.recipes)
    )
    reads = model.reads - 10 * (ranges + 1)  # who owns the output is in a folder that is local here
    assert 0.9 * reads < counted.requests["read"] <= 1.1 * reads
    assert 0.9 * model.writes < counted.requests["write"] <= 1.1 * model.writes


def test_merging_and_sharding_hold_a_block_of_payload(counted, tmp_path):
    """16 MiB of documents on two levels into one shard, with blocks of 1 MiB."""
    generator = random.Random(3)
    (tmp_path / "corpus").mkdir()
    for number in range(32):
        with (tmp_path / "corpus" / f"{number}.jsonl").open("w") as file:
            for _ in range(8):
                file.write(json.dumps({"text": generator.randbytes(1 << 15).hex()}) + "\n")
    limits = MergeLimits(block_bytes=1 << 20, row_bytes=1 << 20, fan_in=16, shard_inputs=4)
    job = TextOptions(
        (str(tmp_path / "corpus"),), str(tmp_path / "set"), no_labels=True, unit_size="512KiB"
    )
    build = Build(job, Merging(COST, limits, 4), forced_levels(2))
    workspace = build.workspace
    workspace.units = Url(f"counted://{workspace.units}")
    workspace.runs = Url(f"counted://{workspace.runs}")
    build.stage()
    plan = build.plan()
    assert plan is not None and len(plan.records) < 4
    tracemalloc.start()
    try:
        build.shard(plan, build.merge(plan))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What is being written is buffered too, a MiB at a time.
    assert peak < 2 * limits.memory_bytes(COST) < 9 << 20
