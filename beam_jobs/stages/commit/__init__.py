"""Stage 5, commit: everything that makes shards a set; the manifest is written last of all."""

from beam_jobs.stages.commit.shard_set import commit

__all__ = ["commit"]
