"""The five stages of a job, in order: list, stage, plan, shard, commit."""
