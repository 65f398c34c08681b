"""The shards of a split on disk: whether they can be what the manifest says."""

from __future__ import annotations

from pathlib import Path

from shard_format import DamageError, ShardSetError, SplitInfo


def check_shards(directory: Path, split: SplitInfo) -> list[Path]:
    """The paths of a split's shards, each seen to be there and to have its size.

    It looks at names and sizes only; 'shardmill verify' reads every byte.

    Raises:
        ShardSetError: A shard is missing.
        DamageError: A shard has another size than the manifest says.
    """
    paths = [directory / shard.file for shard in split.shards]
    for path, shard in zip(paths, split.shards, strict=True):
        try:
            found = path.stat().st_size
        except FileNotFoundError as error:
            raise ShardSetError(
                f"every shard in the manifest must be there, got no file {path}. "
                "Copy the whole set, or run 'shardmill verify' to see what is missing."
            ) from error
        if found != shard.bytes:
            raise DamageError(
                f"a shard must have the size in the manifest ({shard.bytes} bytes), got {found} "
                f"bytes in {path}. Copy it again, or build the set again."
            )
    return paths
