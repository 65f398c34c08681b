"""The cost function of merge levels, and the tasks that follow from it."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.stages.plan.merge_levels import (
    LIMITS,
    LOCAL,
    MAX_LEVELS,
    OBJECT_STORE,
    MergeLimits,
    MergeWork,
    Merging,
    choose_levels,
    dollars,
    merging_at,
    shuffle_traffic,
)
from beam_jobs.stages.plan.merge_plan import MergedRun, MergePlan, merge_tasks, merged_shards
from foundation.storage import Url
from tests.fixtures.proofs import examples

OBJECTS = Merging(OBJECT_STORE, LIMITS, MAX_LEVELS)
few_examples = settings(max_examples=examples(40))
UNIT, SHARD, REQUEST = 30 << 20, 128 << 20, 8 << 20


def work(payload, record=100_000, row=200, unit=UNIT, shard=SHARD):
    records = max(1, payload // record)
    units, shards = max(1, payload // unit), max(1, payload // shard)
    return MergeWork(units, min(shards, records), records, payload, records * row)


sizes = st.integers(1 << 30, 100 * 10**12)
works = st.builds(
    work,
    sizes,
    record=st.integers(2_000, 20_000_000),
    row=st.integers(50, 400),
    unit=st.integers(4 << 20, 96 << 20),
    shard=st.integers(32 << 20, 4 << 30),
)


usual = st.builds(
    work,
    sizes,
    record=st.integers(20_000, 20_000_000),
    row=st.integers(50, 400),
    unit=st.integers(16 << 20, 96 << 20),
    shard=st.integers(64 << 20, 1 << 30),
)


def allowed(work):
    """A unit and a shard take a few requests, however small they are."""
    size = work.payload_bytes + work.row_bytes
    return 4 * size / REQUEST + 4 * (work.units + work.shards) + 2_000


@few_examples
@given(usual)
def test_requests_are_at_most_four_for_8_mib_however_large_the_corpus_is(work):
    levels = choose_levels(work, OBJECTS)
    requests = sum(stage.requests for stage in shuffle_traffic(work, levels, OBJECTS).values())
    assert requests <= 1.05 * allowed(work)  # sizes that are just over a request take two


@few_examples
@given(works)
def test_every_stage_stays_within_them_whatever_units_and_shards_are(work):
    levels = choose_levels(work, OBJECTS)
    for stage, traffic in shuffle_traffic(work, levels, OBJECTS).items():
        assert traffic.requests <= allowed(work), stage
    if levels:
        inputs = [work.units, *(level.groups for level in levels)]
        for before, after in itertools.pairwise(inputs):
            assert math.ceil(before / after) <= LIMITS.fan_in


@few_examples
@given(works)
def test_tasks_fit_in_memory(work):
    levels = choose_levels(work, OBJECTS)
    rows = work.row_bytes
    for number, level in enumerate(levels):
        tasks = level.groups * level.buckets
        one_unit, one_shard = rows / work.units, rows / work.shards
        most = max(LIMITS.row_bytes + one_unit, one_unit if number == 0 else one_shard)
        assert rows / tasks <= 2.1 * most
        assert level.buckets <= work.shards


@few_examples
@given(works)
def test_what_is_chosen_costs_least(work):
    free = OBJECTS._replace(cost=OBJECT_STORE._replace(budget=math.inf))
    chosen = choose_levels(work, free)
    for fewer in range(len(chosen)):
        other = choose_levels(work, free._replace(max_levels=fewer))
        assert dollars(work, chosen, free) <= dollars(work, other, free)


def test_local_builds_of_usual_sizes_have_no_level():
    assert merging_at(Path("units"), None).max_levels == 0
    assert merging_at(Path("units"), 200 << 30).max_levels == 0
    large = merging_at(Path("units"), 1 << 40)
    assert large.cost == LOCAL and large.max_levels == MAX_LEVELS


def test_a_pipeline_has_the_levels_that_its_corpus_may_need():
    bucket = Url("gs://bucket/units")
    assert merging_at(bucket, None) == OBJECTS
    assert [merging_at(bucket, 10**n).max_levels for n in (3, 9, 11, 12, 14)] == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("place", [Url("gs://bucket/units"), Path("units")])
def test_only_large_corpora_are_planned_in_rounds(place):
    ranges = [merging_at(place, size).ranges for size in (10**9, 10**11, 10**13, 10**15)]
    assert ranges == [1, 1, 72, 2048]
    assert merging_at(place, None).ranges == 1


@pytest.mark.parametrize(
    ("terabytes", "levels"), [(0.001, 0), (0.01, 1), (1, 2), (10, 3), (100, 4)]
)
def test_levels_grow_with_the_logarithm_of_the_corpus(terabytes, levels):
    assert len(choose_levels(work(int(terabytes * 10**12)), OBJECTS)) == levels


@pytest.mark.parametrize(("units", "shards"), [(1, 1), (25, 4), (300, 3), (12, 60)])
def test_small_builds_do_not_wait_for_a_level(units, shards):
    assert choose_levels(MergeWork(units, shards, 10**6, units << 20, units << 12), OBJECTS) == ()


def test_nothing_is_merged_without_records():
    assert choose_levels(MergeWork(3, 0, 0, 0, 0), OBJECTS) == ()


def test_memory_of_a_worker_is_what_the_documents_say():
    assert LIMITS.memory_bytes(OBJECT_STORE) / 2**30 == pytest.approx(1.1, abs=0.05)


@few_examples
@given(
    units=st.integers(1, 60),
    shards=st.integers(1, 40),
    most=st.integers(1, MAX_LEVELS),
    fan_in=st.integers(2, 8),
    block=st.integers(1, 4000),
    seed=st.integers(0, 99),
)
def test_every_record_reaches_its_shard_exactly_once(units, shards, most, fan_in, block, seed):
    generator = np.random.default_rng(seed)
    records = int(generator.integers(1, 200))
    unit_of = generator.integers(0, units, records)
    shard_of = generator.integers(0, shards, records)
    limits = MergeLimits(block, 10**6, fan_in, shard_inputs=2)
    dear = OBJECT_STORE._replace(read_dollars=10**6, write_dollars=0)
    levels = choose_levels(
        MergeWork(units, shards, records, records * 100, records * 10), Merging(dear, limits, most)
    )
    if not levels:
        return
    # A unit belongs to the group whose range has it.
    bounds = [group * units // levels[0].groups for group in range(levels[0].groups + 1)]
    of_group = [
        np.flatnonzero((unit_of >= first) & (unit_of < last))
        for first, last in itertools.pairwise(bounds)
    ]
    plan = MergePlan(
        [tuple(level) for level in levels],
        [(f"r{group}", f"k{group}", len(own)) for group, own in enumerate(of_group)],
        "s",
        {"train": shards},
        [0] * shards,
        "",
    )
    contents, runs = {}, []
    for level in range(1, most + 1):
        tasks = list(merge_tasks(plan, level, runs))
        if level > len(levels):
            assert tasks == []
            continue
        runs = [_run(task, of_group, contents, shard_of, fan_in) for task in tasks]
        assert len({task.key for task in tasks}) == len(tasks)
    rows = [_in_cells(spec.cells, contents) for spec in merged_shards(plan, runs)]
    for shard, own in enumerate(rows):
        assert own == np.flatnonzero(shard_of == shard).tolist()


def _in_cells(cells, contents):
    return sorted(record for cell in cells for record in contents[cell.run, cell.offset])


def _run(task, of_group, contents, shard_of, fan_in):
    """Writes a run of one byte a record, and one for the rows of a cell."""
    assert len(task.inputs) <= fan_in
    own = of_group[task.group].tolist() if task.recipe else _in_cells(task.inputs, contents)
    assert len(own) == task.records > 0
    sizes, offset, first = [], 0, 0
    for end in task.ends:
        inside = [record for record in own if first <= shard_of[record] < end]
        size = (len(inside), bool(inside), len(inside))
        if inside:
            contents[task.key, offset] = inside
        offset += size[1] + size[2]
        sizes.append(size)
        own = [record for record in own if record not in inside]
        first = end
    return MergedRun.of(task, sizes)
