"""The files of a split, checked against the manifest by name and size. Without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar, cast, overload

import pyarrow as pa
from typing_extensions import override

from foundation import storage
from foundation.storage import Place
from shard_format import (
    DamageError,
    Manifest,
    ShardInfo,
    ShardSetError,
    SplitInfo,
    open_split_index,
)
from shard_format.naming import below

AnyPlace = TypeVar("AnyPlace", bound=Place)


def checked_index(root: Place, manifest: Manifest, split: str) -> pa.Table:
    """The index of a split, which has a row for each of its records.

    Raises:
        ShardSetError: It is missing.
        DamageError: It has another number of rows.
    """
    index, records = open_split_index(root, manifest, split), manifest.splits[split].records
    if index.num_rows != records:
        raise DamageError(
            f"The index has {index.num_rows} rows for {records} records in "
            f"{root / manifest.index_file(split)}. Run 'shardmill verify', and build the set again."
        )
    for name in ("offset", "length"):
        column = index[name]
        if not pa.types.is_integer(column.type) or column.null_count:
            raise DamageError(
                f"Column {name!r} of the index is {column.type} with {column.null_count} nulls, "
                f"not integers without nulls, in {root / manifest.index_file(split)}. Build the "
                "set again."
            )
    return index


class ShardPaths(Sequence[AnyPlace]):
    """The paths of the shards of a split, each made where it is asked for.

    Args:
        directory: The set.
        split: The split.
    """

    def __init__(self, directory: AnyPlace, split: SplitInfo) -> None:
        self._directory, self._shards = directory, split.shards

    @override
    def __len__(self) -> int:
        return len(self._shards)

    @override
    def __iter__(self) -> Iterator[AnyPlace]:
        return map(self._path, self._shards)

    @overload
    def __getitem__(self, number: int) -> AnyPlace: ...

    @overload
    def __getitem__(self, number: slice) -> list[AnyPlace]: ...

    @override
    def __getitem__(self, number: int | slice) -> AnyPlace | list[AnyPlace]:
        if isinstance(number, slice):
            return [self._path(shard) for shard in self._shards[number]]
        return self._path(self._shards[number])

    def _path(self, shard: ShardInfo) -> AnyPlace:
        return cast(AnyPlace, self._directory / shard.file)


def check_shards(directory: Path, split: SplitInfo) -> Sequence[Path]:
    """The paths of a split's shards, after `check_sizes`.

    The folder of a large split is not listed: a shard that is missing is found when it is read.

    Raises:
        ShardSetError: A shard is missing.
        DamageError: A shard has another size than the manifest says.
    """
    if not split.index:
        check_sizes(directory, split)
    return ShardPaths(directory, split)


def check_sizes(directory: Place, split: SplitInfo) -> None:
    """Checks that each shard of a split exists and has its size.

    It lists names and sizes only; 'shardmill verify' reads every byte.

    Raises:
        ShardSetError: A shard is missing, or the directory cannot be listed.
        DamageError: A shard has another size than the manifest says.
    """
    sizes: dict[str, int] = {}
    # The set, and the folders of what was appended.
    for folder in sorted({shard.file.rpartition("/")[0] for shard in split.shards}):
        place = directory / folder if folder else directory
        try:
            sizes |= {
                below(folder, entry.name): entry.stat.size for entry in storage.list_folder(place)
            }
        except OSError as error:
            raise ShardSetError(
                f"Cannot list {place}: '{error.strerror}'. Check the path and its permissions."
            ) from error
    for shard in split.shards:
        path, size = directory / shard.file, sizes.get(shard.file)
        if size is None:
            raise ShardSetError(
                f"No shard file {path}. Copy the whole set, or run 'shardmill verify' to see what "
                "is missing."
            )
        if size != shard.bytes:
            raise DamageError(
                f"{path} has {size} bytes, but {shard.bytes} in the manifest. Copy it again, or "
                "build the set again."
            )
