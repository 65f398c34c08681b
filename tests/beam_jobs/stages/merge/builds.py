"""Small builds that merge, with Beam or stage by stage."""

from __future__ import annotations

import math
import time

from beam_jobs.build import workspace_of
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.stages.commit import commit
from beam_jobs.stages.list import list_corpus, read_units, resolve_options
from beam_jobs.stages.merge import merge
from beam_jobs.stages.plan import load_merge_plan, merge_tasks, merged_shards, plan_shards
from beam_jobs.stages.plan.merge_levels import Limits, Merging, RequestCost, Work, choose_levels
from beam_jobs.stages.shard import write_shard
from beam_jobs.stages.stage import stage_unit

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


OPTIONS = {"unit_size": "2KiB", "num_shards": 5}


class Build:
    """A build stage by stage, without Beam, in this thread.

    Args:
        kind: Of records.
        corpus: The source.
        out: The set.
        merging_of: From the number of units to how they are merged.
        options: Further options.
    """

    def __init__(self, kind, corpus, out, merging_of, **options):
        self.job = resolve_options(kind.options(corpus, out, **(OPTIONS | options)))
        self.record_type = RECORD_TYPES[kind.name](self.job)
        self.workspace = workspace_of(self.job)
        self.merging_of = merging_of

    def stage(self):
        self.workspace.create()
        self.listing = list_corpus(self.job, self.record_type, self.workspace)
        units = list(read_units(self.workspace))
        merging = self.merging_of(len(units))
        self.block = merging.limits.block_bytes
        job = (self.job, self.record_type, self.workspace)
        self.summaries = [stage_unit(unit, *job) for unit in units]
        self.merging = merging

    def plan(self):
        job = (self.job, self.record_type, self.workspace)
        self.specs = plan_shards(self.summaries, *job, self.merging)
        return load_merge_plan(self.workspace)

    def merge(self, plan):
        runs = []
        for level in range(1, len(plan.levels) + 1):
            tasks = list(merge_tasks(plan, level, runs))
            runs = []
            for task in tasks:
                runs.append(merge(task, self.record_type, self.workspace, self.block))
        return runs

    def shard(self, plan, runs):
        specs = merged_shards(plan, runs) if plan else self.specs
        job = (self.record_type, self.workspace, self.block)
        return [write_shard(spec, *job) for spec in specs]

    def commit(self, results):
        job = (self.job, self.record_type, self.workspace)
        commit(self.summaries, results, self.listing.build_id, time.time(), *job)
        self.workspace.remove()

    def run(self):
        self.stage()
        plan = self.plan()
        self.commit(self.shard(plan, self.merge(plan)))
