"""Random access: any record of a split by its number, without TensorFlow."""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import SupportsIndex, TypeVar, overload

from foundation import storage
from foundation.options import check_integer
from foundation.storage import Place, Range, Url, local_path, place_of
from reader.access.examples import Values
from reader.access.indexed_split import AccessInfo, IndexedSplit
from shard_format import Manifest, ShardSetError, UsageError, load_manifest, manifest_with

_WHERE = "reader.random_access"

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class SplitReference:
    """What is needed to open a split, in this process or another one.

    Attributes:
        directory: The shard set.
        split: Name of the split.
        decode: Whether images become pixels.
        max_open_files: Shards that one process keeps open.
        root_hash: Root hash of the set when it was first opened.
    """

    directory: Place
    split: str
    decode: bool
    max_open_files: int
    root_hash: str

    def manifest(self) -> Manifest:
        """The manifest of the set as it was, also where records were appended since.

        Raises:
            ShardSetError: It is no longer the set that it was.
        """
        manifest = manifest_with(self.directory, self.root_hash)
        if manifest is None:
            raise ShardSetError(
                f"The set in {self.directory} has changed since it was opened: its root hash is "
                f"no longer {self.root_hash}. Open it again."
            )
        return manifest

    def open(self, manifest: Manifest) -> IndexedSplit:
        """The split of the set that has this manifest."""
        return IndexedSplit(self.directory, manifest, self.split, self.decode, self.max_open_files)


class RandomAccess:
    """The records of a split by number, as `random_access` gives them.

    A sequence of dictionaries: a data source for Grain, and a map-style data set for PyTorch. A
    slice is another RandomAccess on some of the records: nothing is read before it is asked for.
    It may be used by several threads. Pickled it is some hundred bytes, whatever the size of the
    set, and the process that unpickles it opens the files when it first reads.
    """

    def __init__(self, source: SplitReference, rows: range, split: IndexedSplit | None) -> None:
        self._source, self._rows, self._split = source, rows, split

    @property
    def info(self) -> AccessInfo:
        """What is read."""
        return self._opened().info

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, key: SupportsIndex) -> Values: ...
    @overload
    def __getitem__(self, key: slice) -> RandomAccess: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Values | RandomAccess:
        if isinstance(key, slice):
            return RandomAccess(self._source, self._rows[key], self._split)
        number = operator.index(key)
        try:
            row = self._rows[number]
        except IndexError:
            raise IndexError(
                f"Record number {number} is not in [{-len(self)}, {len(self)}) of "
                f"{self._source.split!r} of {self._source.directory}"
            ) from None
        return self._opened().read(row)

    def __getitems__(self, keys: Sequence[SupportsIndex]) -> list[Values]:
        """The records of several numbers, in their order: how PyTorch fetches a batch."""

        def range_of(key: SupportsIndex) -> Range | None:
            number = operator.index(key)
            in_range = -len(self) <= number < len(self)
            return self._opened().range_of(self._rows[number]) if in_range else None

        return [self[key] for key in self._ahead(keys, range_of)]

    def __iter__(self) -> Iterator[Values]:
        for row in self._ahead(self._rows, lambda row: self._opened().range_of(row)):
            yield self._opened().read(row)

    def _ahead(
        self, items: Iterable[Item], range_of: Callable[[Item], Range | None]
    ) -> Iterable[Item]:
        """Items; of a set at a URL the records of the next ones are on their way."""
        at_url = local_path(self._source.directory) is None
        return storage.ahead(items, range_of) if at_url else items

    def __repr__(self) -> str:
        # Grain compares this when a job resumes, so it names the content and not the path.
        rows = self._rows
        step = "" if rows.step == 1 else f":{rows.step}"
        return (
            f"<RandomAccess to [{rows.start}:{rows.stop}{step}] of {self._source.split!r}, "
            f"decode={self._source.decode}, root hash {self._source.root_hash}>"
        )

    def __getstate__(self) -> tuple[SplitReference, range]:
        # A process elsewhere may have another working directory.
        directory = self._source.directory
        directory = Path(os.path.abspath(directory)) if isinstance(directory, Path) else directory
        return dataclasses.replace(self._source, directory=directory), self._rows

    def __setstate__(self, state: tuple[SplitReference, range]) -> None:
        (self._source, self._rows), self._split = state, None

    def _opened(self) -> IndexedSplit:
        # Two threads may both open it: that costs a moment, and either one will do.
        split = self._split
        if split is None:
            split = self._split = self._source.open(self._source.manifest())
        return split


def random_access(
    directory: str | os.PathLike[str] | Url,
    split: str = "train",
    *,
    decode: bool = True,
    max_open_files: int = 64,
    generation: int | None = None,
) -> RandomAccess:
    """The records of one split by number: `len(data)`, `data[i]`, `data[-1]`, `data[10:20]`.

        data = reader.random_access("data/clothing")
        data[0]                 {"id": "shirt/1.jpg", "image": [height, width, 3] uint8, "label": 3}
        data.info.class_names   ("dress", "hat", ...)

    Record numbers are those of the index: the order on disk, which is shuffled already. A record
    costs one read of exactly its bytes, whose checksum is compared; TensorFlow is not loaded.

    For PyTorch: `DataLoader(data, batch_size=64, shuffle=True, num_workers=4, collate_fn=...)`, for
    Grain: `grain.MapDataset.source(data).shuffle(seed=0)`, or `data_source=data`.

    A record is a dictionary of the features of the schema: images as [height, width, 3] uint8
    (RGB, the pixels that `reader.load` gives with image_size=None) or as stored; texts as str; a
    class or another single number as int or float; several classes, token ids and other lists of
    numbers as [n] int64 or float32.

    Args:
        directory: The shard set, or its URL. Its index is then held in memory, and a record costs
            a request; those of a batch or an iteration are requested many at a time.
        split: Name of a split of the set.
        decode: Whether images become pixels; False gives their bytes as stored.
        max_open_files: Shards that one process keeps open at a time, at least 1.
        generation: Number of a generation of the set ('shardmill log'); None is the newest.

    Raises:
        UsageError: An option is wrong, or there is no such split or generation.
        ShardSetError: There is no shard set, or it cannot be read by this version. While records
            are read: a shard is missing, or the set has been replaced by another one.
        DamageError: The index is not what the manifest says. While records are read: the record is
            damaged; it names shard, byte offset and record id. All others can still be read.
    """
    if not isinstance(decode, bool):
        raise UsageError(f"decode is {decode!r} in {_WHERE}. Pass True or False.")
    check_integer("max_open_files", max_open_files, 1, where=_WHERE)
    if generation is not None:
        check_integer("generation", generation, 0, where=_WHERE)
    root = place_of(directory)
    manifest = load_manifest(root, generation)
    source = SplitReference(root, split, decode, max_open_files, manifest.root_hash)
    opened = source.open(manifest)
    return RandomAccess(source, range(opened.info.records), opened)
