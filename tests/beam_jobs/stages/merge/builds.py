"""Small builds that merge, with Beam or stage by stage."""

from __future__ import annotations

import time
from collections.abc import Callable
from unittest import mock

from beam_jobs.job_context import JobContext
from beam_jobs.stages.commit import commit
from beam_jobs.stages.commit.index import write_index
from beam_jobs.stages.commit.shard_set import WrittenParts
from beam_jobs.stages.list import list_corpus, resolve_options
from beam_jobs.stages.merge import merge
from beam_jobs.stages.plan import load_merge_plan, merge_tasks, merged_shards, plan_shards
from beam_jobs.stages.plan import plan as planning
from beam_jobs.stages.plan.merge_levels import (
    OBJECT_STORE,
    Level,
    MergeLimits,
    MergeWork,
    Merging,
    choose_levels,
)
from beam_jobs.stages.plan.spread import begin_rounds, decide_round, do_round, is_spread, shards
from beam_jobs.stages.shard import write_shard
from beam_jobs.stages.stage import stage_unit
from beam_jobs.staging.units import read_units

FORCED = Merging(OBJECT_STORE, MergeLimits(block_bytes=1 << 16), 4)


def forced_levels(count: int) -> Callable[[MergeWork, Merging], tuple[Level, ...]]:
    """Takes the place of `choose_levels`: so many levels, with buckets, for any small build."""

    def levels(work: MergeWork, merging: Merging) -> tuple[Level, ...]:
        groups, buckets, made = work.units, 1, []
        for number in range(count):
            groups = -(-groups // 3)
            buckets *= 1 if number == 0 or work.shards < 2 * buckets else 2
            made.append(Level(groups, buckets))
        return tuple(made)

    return levels


OPTIONS = {"unit_size": "2KiB", "num_shards": 5, "no_report": True}  # the stages make none


class Build:
    """A build stage by stage, without Beam, in this thread.

    Args:
        job: Its options.
        merging: How units may be merged.
        choose: In the place of `choose_levels`.
    """

    def __init__(self, job, merging=FORCED, choose=choose_levels):
        self.job = JobContext.create(resolve_options(job))
        self.workspace = self.job.workspace
        self.merging, self.choose = merging, choose
        self.block = merging.limits.block_bytes

    def stage(self):
        self.workspace.create()
        self.listing = list_corpus(self.job)
        units = list(read_units(self.workspace))
        self.summaries = [stage_unit(unit, self.job) for unit in units]

    def plan(self, between=lambda: None):
        """Plans the shards; calls `between` after every half of a round of planning."""
        with (
            mock.patch.object(planning, "choose_levels", self.choose),
            mock.patch.object(shards, "choose_levels", self.choose),
        ):
            if is_spread(self.job, self.merging):
                self._plan_in_rounds(between)
            else:
                self.specs = plan_shards(self.summaries, self.job, self.merging)
        return load_merge_plan(self.workspace)

    def _plan_in_rounds(self, between):
        job = (self.job, self.merging)
        tasks = begin_rounds(self.summaries, *job)
        while tasks:
            between()
            self.workspace.compare_again()  # as every step does
            results = [do_round(task, *job) for task in tasks]
            between()
            self.workspace.compare_again()
            tasks = decide_round(results, *job)
        self.specs = []

    def merge(self, plan):
        runs = []
        for level in range(1, len(plan.levels) + 1):
            tasks = list(merge_tasks(plan, level, runs))
            runs = []
            for task in tasks:
                runs.append(merge(task, self.job, self.block))
        return runs

    def shard(self, plan, runs):
        self.specs = list(merged_shards(plan, runs)) if plan else self.specs
        return [write_shard(spec, self.job, self.block) for spec in self.specs]

    def commit(self, results):
        done = [shard.done(spec) for spec, shard in zip(self.specs, results, strict=True)]
        commit(
            self.summaries,
            WrittenParts(write_index(done, self.job)),
            self.listing,
            time.time(),
            self.job,
        )
        self.workspace.remove()

    def run(self):
        self.stage()
        plan = self.plan()
        self.commit(self.shard(plan, self.merge(plan)))
