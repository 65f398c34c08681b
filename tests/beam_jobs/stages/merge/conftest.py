"""Builds that merge, though they are small."""

from __future__ import annotations

import math

import pytest

from beam_jobs.stages.plan.merge_levels import Limits, Merging, RequestCost, Work, choose_levels

# Where a request costs more than all copying.
DEAR = RequestCost(1.0, 1, 1e12, 1.0, 1.0, 1 << 20, 1 << 20, math.inf)


def merging(levels: int, units: int, most: int = 4) -> Merging:
    """Makes a build of so many units have this number of levels, with many buckets."""
    for fan_in in range(units, 1, -1):
        limits = Limits(block_bytes=1 << 16, fan_in=fan_in, shard_inputs=2)
        chosen = choose_levels(Work(units, 30, 300, 1 << 20, 1 << 10), Merging(DEAR, limits, most))
        if len(chosen) == levels:
            return Merging(DEAR, limits, most)
    raise AssertionError(f"no fan-in gives {levels} levels for {units} units")


@pytest.fixture
def force(monkeypatch):
    """Has every build in this process merge."""

    def start(levels: int, units: int) -> None:
        forced = merging(levels, units)
        monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: forced)

    return start
