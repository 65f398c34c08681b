"""Stage 5, commit: index, metadata and quarantine; the manifest is written last of all."""

from beam_jobs.stages.commit.shard_set import commit

__all__ = ["commit"]
