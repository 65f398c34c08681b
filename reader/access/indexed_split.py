"""A split by its index: one record by its row, read from its shard."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from typing_extensions import override

from foundation import storage
from foundation.options import check_choice
from foundation.storage import Place, Range
from foundation.wording import visible
from reader.access.examples import ExampleDecoder, Values
from reader.access.open_files import OpenFiles
from reader.opened_set import OpenedSet
from reader.records.split_files import ShardPaths
from reader.records.split_index import open_lazily
from shard_format import FRAME_BYTES, DamageError, Feature, Manifest, ShardSetError, unframe

_PLACE = ("shard", "offset", "length")
_VERIFY = "Run 'shardmill verify': it names all that is damaged."


@dataclasses.dataclass(frozen=True)
class AccessInfo:
    """What a random access reads.

    Attributes:
        directory: The shard set.
        root_hash: Names the content of the set.
        name: Name of the set.
        split: Name of the split.
        records: Records of the split.
        record_type: Record type of the schema: "image", "text" or "tokens".
        features: What every record has, in order.
        class_names: The name of every main label; empty where the set has none. Of several labels,
            `features` has the class names of each.
    """

    directory: Place
    root_hash: str
    name: str
    split: str
    records: int
    record_type: str
    features: tuple[Feature, ...]
    class_names: tuple[str, ...]

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)


class IndexedSplit:
    """A split with its index open, and of its shards those that were read last.

    Args:
        root: The shard set.
        manifest: Manifest of the set.
        name: Name of the split.
        decode: Whether images become pixels.
        max_open_files: At least 1.

    Raises:
        UsageError: There is no such split.
        ShardSetError: The index is missing, or images have an unknown encoding.
        DamageError: The index is not what the manifest says.
    """

    def __init__(
        self, root: Place, manifest: Manifest, name: str, decode: bool, max_open_files: int
    ) -> None:
        check_choice("split", name, manifest.splits, root)
        split = manifest.splits[name]
        where = root / manifest.index_file(name)
        self._index = open_lazily(root, manifest, name)
        self._shards = split.shards
        self._paths: Sequence[Place] = ShardPaths(root, split)
        # A shard that is open stays what it was; one that is opened later may be another.
        self._opened = OpenedSet(root, manifest.root_hash)
        self._files: OpenFiles | _Requests = (
            OpenFiles(ShardPaths(root, split), max_open_files, self._opened.check)
            if isinstance(root, Path)
            else _Requests(self._paths)
        )
        self._decode = ExampleDecoder(manifest.schema, decode, root)
        self._where = where
        labels = manifest.schema.labels
        self.info = AccessInfo(
            directory=root,
            root_hash=manifest.root_hash,
            name=manifest.name,
            split=name,
            records=split.records,
            record_type=manifest.schema.record_type,
            features=manifest.schema.features,
            class_names=labels[0].class_names if labels else (),
        )

    def read(self, row: int) -> Values:
        """The record of one row of the index, from 0.

        Raises:
            ShardSetError: Its shard is missing or cannot be read.
            DamageError: The record or its row is damaged; names shard, byte offset and record id.
        """
        return self._decode(*self._example(row))

    def _example(self, row: int) -> tuple[bytes, _RecordPlace]:
        shard, offset, length = self._index.row(_PLACE, row)
        if not self._fits(shard, offset, length):
            raise DamageError(
                f"Row {row} of the index points to shard {shard}, bytes [{offset}, "
                f"{offset + length}), outside of the split in {self._where}. {_VERIFY}"
            )
        where = _RecordPlace(self, shard, offset, row)
        framed = self._bytes(shard, offset, length, where)
        try:
            return unframe(framed, where), where
        except DamageError as error:
            self._opened.check()
            raise DamageError(f"{error}. {_VERIFY}") from error

    def range_of(self, row: int) -> Range | None:
        """What reading a row will request; None if that is of a local file or of no file."""
        shard, offset, length = self._index.row(_PLACE, row)
        if not self._fits(shard, offset, length):
            return None
        return storage.range_of(self._paths[shard], offset, length)

    def place_of(self, shard: int, offset: int, row: int) -> str:
        """Where a record is, for people."""
        try:
            ids, own = self._index.ids(row)
            name = visible(ids[own].as_py())
        except (pa.ArrowInvalid, UnicodeDecodeError):
            name = f"number {row}"  # the index is damaged; the record may well be whole
        return f"{self._paths[shard]} at byte {offset} (record {name!r})"

    def _fits(self, shard: int, offset: int, length: int) -> bool:
        if not 0 <= shard < len(self._shards):
            return False
        return 0 <= offset <= offset + length <= self._shards[shard].bytes and length >= FRAME_BYTES

    def _bytes(self, shard: int, offset: int, length: int, where: object) -> bytes:
        try:
            framed = self._files.read(shard, offset, length)
        except FileNotFoundError as error:
            self._opened.check()
            raise ShardSetError(
                f"No shard file {where}. Copy the whole set, or run 'shardmill verify' to see what "
                "is missing."
            ) from error
        except OSError as error:
            raise ShardSetError(
                f"Cannot read {where}: '{error.strerror}'. Grant permission, or, if too many files "
                "are open, pass a smaller max_open_files."
            ) from error
        if len(framed) < length:
            self._opened.check()
            raise DamageError(
                f"The file ends after {len(framed)} of the {length} bytes of a record in {where}. "
                f"{_VERIFY}"
            )
        return framed


@dataclasses.dataclass(frozen=True)
class _RecordPlace:
    """Where a record is, in words that are made where a message needs them."""

    split: IndexedSplit
    shard: int
    offset: int
    row: int

    @override
    def __str__(self) -> str:
        return self.split.place_of(self.shard, self.offset, self.row)


class _Requests:
    """Byte ranges of files at URLs, as `OpenFiles` has them of local files."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places

    def read(self, file: int, offset: int, length: int) -> bytes:
        """`length` bytes of a file from `offset` on, by a request."""
        return storage.read_range(self._places[file], offset, length)
