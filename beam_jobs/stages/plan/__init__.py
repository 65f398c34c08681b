"""Stage 3, plan: duplicates, splits, balance and shard boundaries, on columns of the sidecars."""

from beam_jobs.stages.plan.merge_levels import LIMITS, MergeLimits, Merging, merging_at
from beam_jobs.stages.plan.merge_plan import (
    MergedRun,
    MergeTask,
    load_merge_plan,
    merge_tasks,
    merged_shards,
)
from beam_jobs.stages.plan.plan import Plan, load_plan, plan_shards
from beam_jobs.staging.recipes import ShardSpec

__all__ = [
    "LIMITS",
    "MergeLimits",
    "MergeTask",
    "MergedRun",
    "Merging",
    "Plan",
    "ShardSpec",
    "load_merge_plan",
    "load_plan",
    "merge_tasks",
    "merged_shards",
    "merging_at",
    "plan_shards",
]
