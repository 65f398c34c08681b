"""The files of a split, checked against the manifest by name and size. Without TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from shard_format import DamageError, ShardSetError, SplitInfo, open_index


def checked_index(path: Path, split: SplitInfo) -> pa.Table:
    """The index of a split, which has a row for each of its records.

    Raises:
        ShardSetError: It is missing.
        DamageError: It has another number of rows.
    """
    index = open_index(path)
    if index.num_rows != split.records:
        raise DamageError(
            f"The index has {index.num_rows} rows for {split.records} records in {path}. Run "
            "'shardmill verify', and build the set again."
        )
    return index


def check_shards(directory: Path, split: SplitInfo) -> list[Path]:
    """The paths of a split's shards, after a check that each exists and has its size.

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
                f"No shard file {path}. Copy the whole set, or run 'shardmill verify' to see what "
                "is missing."
            ) from error
        if found != shard.bytes:
            raise DamageError(
                f"{path} has {found} bytes, but {shard.bytes} in the manifest. Copy it again, or "
                "build the set again."
            )
    return paths
