"""Stage 3, plan: duplicates, splits, balance and shard boundaries, on columns of the sidecars."""

from beam_jobs.stages.plan.plan import Plan, load_plan, plan_shards
from beam_jobs.stages.plan.recipes import ShardSpec

__all__ = ["Plan", "ShardSpec", "load_plan", "plan_shards"]
