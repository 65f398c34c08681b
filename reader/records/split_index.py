"""The index of a split as the reader uses it: rows of some columns, and whole columns if needed.

An index in one file is memory-mapped. Of an index in parts a window needs some rows of some parts,
so these are read by byte ranges, and nothing is opened before: a set of any size is opened in the
same time. Without TensorFlow.
"""

from __future__ import annotations

import abc
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from foundation import storage
from foundation.storage import Place, Range, Url
from reader.records.split_files import checked_index
from shard_format import DamageError, Manifest, ShardSetError
from shard_format.arrow_layout import Blocks, blocks_of, column_places, footer_bytes, value_buffers
from shard_format.index_parts import index_tables
from shard_format.shard_list import shard_numbers

Int64Array = npt.NDArray[np.int64]
Parsed = TypeVar("Parsed")

_TAIL_BYTES = 64 << 10  # 64 KiB: the footer of a part with a thousand shards
_HEAD_BYTES = 64 << 10  # 64 KiB: the schema, behind the magic
_MAGIC_BYTES = 8
_FAR_ROWS = 512  # rows so far apart are read in two pieces
_ROW_BLOCK, _ROW_BLOCKS = 512, 32  # rows of a shard that are read for one, and kept


class SplitIndex(abc.ABC):
    """The index of a split, with a row for each of its records.

    Attributes:
        schema: Schema of the index.
    """

    schema: pa.Schema

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    @abc.abstractmethod
    def select(self, names: Sequence[str]) -> pa.Table:
        """Whole columns."""

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """A whole column."""
        return self.select([name])[name]

    @abc.abstractmethod
    def take(self, names: tuple[str, ...], numbers: Int64Array) -> list[Int64Array]:
        """[n] int64 of each column: the values of [n] int64 record numbers.

        Raises:
            ShardSetError: A part is missing, or cannot be read.
            DamageError: A part is damaged.
        """

    @abc.abstractmethod
    def row(self, names: tuple[str, ...], number: int) -> list[int]:
        """The values of one record."""

    @abc.abstractmethod
    def ids(self, number: int) -> tuple[pa.Array, int]:
        """Ids of some records, and the row of one of them.

        Raises:
            pa.ArrowInvalid: The index is damaged.
        """


class WholeIndex(SplitIndex):
    """An index that is open.

    Args:
        table: The index.
    """

    def __init__(self, table: pa.Table) -> None:
        self.schema, self._table = table.schema, table
        # Finding a column in a table of 10,000 shards takes longer than a record.
        self._columns = {name: table[name] for name in table.column_names}

    @override
    def select(self, names: Sequence[str]) -> pa.Table:
        return self._table.select(names)

    @override
    def take(self, names: tuple[str, ...], numbers: Int64Array) -> list[Int64Array]:
        rows = pa.array(numbers, pa.int64())
        taken = (pc.take(self._columns[name], rows) for name in names)
        return [np.asarray(column.to_numpy(), np.int64) for column in taken]

    @override
    def row(self, names: tuple[str, ...], number: int) -> list[int]:
        return [self._columns[name][number].as_py() for name in names]

    @override
    def ids(self, number: int) -> tuple[pa.Array, int]:
        for chunk in self._columns["record_id"].chunks:
            if number < len(chunk):
                return chunk, number
            number -= len(chunk)
        raise IndexError(number)


class IndexInParts(SplitIndex):
    """An index in parts, which are read where their rows are asked for.

    Args:
        root: The set, or its URL.
        manifest: Manifest of the set.
        split: Name of the split.
    """

    def __init__(self, root: Place, manifest: Manifest, split: str) -> None:
        self._root, self._manifest, self._split = root, manifest, split
        self._parts = manifest.index_parts(split)
        self._part_ends = np.cumsum([part.shards for part in self._parts], dtype=np.int64)
        self._records = shard_numbers(manifest.splits[split].shards, "records")
        self._ends = np.cumsum(self._records)
        self._blocks: dict[int, Blocks] = {}
        self._places: dict[str, Int64Array] = {}
        self._kept_rows = functools.lru_cache(_ROW_BLOCKS)(
            lambda names, begin, end: self.take(names, np.arange(begin, end))
        )

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """Schema of the first part, which is that of all."""
        (data,) = self._read([(0, 0, min(_HEAD_BYTES, self._size(0)))])
        try:
            return pa.ipc.read_schema(pa.BufferReader(data[_MAGIC_BYTES:]))
        except (pa.ArrowException, OSError) as error:
            raise self._damage(0, str(error)) from error

    @override
    def select(self, names: Sequence[str]) -> pa.Table:
        tables = index_tables(self._root, self._manifest, self._split, names)
        return pa.concat_tables(table.select(names) for table in tables)

    @override
    def take(self, names: tuple[str, ...], numbers: Int64Array) -> list[Int64Array]:
        order = np.argsort(numbers, kind="stable")
        wanted = numbers[order]
        shards = np.searchsorted(self._ends, wanted, side="right")
        rows = wanted - (self._ends[shards] - self._records[shards])
        self._locate(names, np.unique(shards))
        breaks = (shards[1:] != shards[:-1]) | (np.diff(rows) > _FAR_ROWS)
        first = np.flatnonzero(np.concatenate([[True], breaks])) if len(order) else order
        last = np.append(first[1:], len(order)) - 1
        counts = rows[last] - rows[first] + 1
        parts = np.searchsorted(self._part_ends, shards[first], side="right")
        # Where a wanted row is in the rows of all runs, one run after the other.
        before = np.cumsum(counts) - counts - rows[first]
        places = rows + np.repeat(before, last - first + 1)
        taken = []
        for name in names:
            width = self.schema.field(name).type.bit_width // 8
            begins = self._places[name][shards[first]] + width * rows[first]
            ranges = zip(parts.tolist(), begins.tolist(), (width * counts).tolist(), strict=True)
            values = np.zeros(len(order), np.int64)
            stored = np.frombuffer(b"".join(self._read(list(ranges))), f"<i{width}")
            values[order] = stored[places]
            taken.append(values)
        return taken

    @override
    def row(self, names: tuple[str, ...], number: int) -> list[int]:
        shard = int(np.searchsorted(self._ends, number, side="right"))
        first = int(self._ends[shard] - self._records[shard])
        begin = number - (number - first) % _ROW_BLOCK
        columns = self._kept_rows(names, begin, min(begin + _ROW_BLOCK, int(self._ends[shard])))
        return [int(column[number - begin]) for column in columns]

    @override
    def ids(self, number: int) -> tuple[pa.Array, int]:
        shard = int(np.searchsorted(self._ends, number, side="right"))
        part = int(np.searchsorted(self._part_ends, shard, side="right"))
        row = number - int(self._ends[shard] - self._records[shard])
        try:
            file = pa.ipc.open_file(storage.open_arrow(self._place(part)))
            ids = file.get_batch(shard - self._first_shard(part))["record_id"]
        except (pa.ArrowException, OSError, KeyError) as error:
            raise pa.ArrowInvalid(str(error)) from error
        if row >= len(ids):
            raise pa.ArrowInvalid(f"the index has {len(ids)} rows of shard {shard}")
        return ids, row

    def _locate(self, names: tuple[str, ...], shards: Int64Array) -> None:
        """Finds where columns of some shards begin in their parts, as far as that is not known."""
        for name in names:
            if name not in self._places:
                self._places[name] = np.full(len(self._ends), -1, np.int64)
        unknown = shards[np.any([self._places[name][shards] < 0 for name in names], axis=0)]
        if not len(unknown):
            return
        parts = np.searchsorted(self._part_ends, unknown, side="right")
        self._open(np.unique(parts))
        ranges = []
        for shard, part in zip(unknown.tolist(), parts.tolist(), strict=True):
            blocks, own = self._blocks[part], shard - self._first_shard(part)
            ranges.append((part, int(blocks.offsets[own]), int(blocks.head_bytes[own])))
        buffers = self._parsed(0, value_buffers, self.schema, names)
        for shard, (part, begin, _), head in zip(
            unknown.tolist(), ranges, self._read(ranges), strict=True
        ):
            rows, places = self._parsed(part, column_places, head, buffers)
            if rows != self._records[shard]:
                raise self._damage(part, f"it has {rows} rows of shard {shard}")
            for name, place in zip(names, places, strict=True):
                self._places[name][shard] = begin + place

    def _open(self, parts: Int64Array) -> None:
        """Reads which record batches parts have; there is one for each shard."""
        unknown = [part for part in parts.tolist() if part not in self._blocks]
        sizes = [self._size(part) for part in unknown]
        ends = zip(unknown, sizes, self._ends_of(unknown, sizes, _TAIL_BYTES), strict=True)
        for part, size, end in ends:
            footer = self._parsed(part, footer_bytes, end)
            if footer > len(end):
                (end,) = self._ends_of([part], [size], footer)
            blocks = self._parsed(part, blocks_of, end)
            if len(blocks.offsets) != self._parts[part].shards:
                raise self._damage(part, f"it has {len(blocks.offsets)} record batches")
            self._blocks[part] = blocks

    def _ends_of(self, parts: list[int], sizes: list[int], most: int) -> Iterator[bytes]:
        begins = [max(0, size - most) for size in sizes]
        lengths = [size - begin for size, begin in zip(sizes, begins, strict=True)]
        return self._read(list(zip(parts, begins, lengths, strict=True)))

    def _first_shard(self, part: int) -> int:
        return int(self._part_ends[part]) - self._parts[part].shards

    def _size(self, part: int) -> int:
        return int(self._manifest.files[self._parts[part].file]["bytes"])

    def _place(self, part: int) -> Place:
        return self._root / self._parts[part].file

    def _read(self, ranges: list[tuple[int, int, int]]) -> Iterator[bytes]:
        """The bytes of ranges (part, offset, size), in order.

        Raises:
            ShardSetError: A part is missing, or cannot be read.
            DamageError: A part ends before.
        """
        try:
            for (part, _, size), data in zip(ranges, self._requested(ranges), strict=True):
                if len(data) < size:
                    raise self._damage(part, f"it has {len(data)} of the {size} bytes of a range")
                yield data
        except OSError as error:
            raise ShardSetError(
                f"Cannot read the index of split {self._split} in {self._root}: "
                f"'{error.strerror or error}', {error.filename}. Copy the whole set, or check the "
                "connection."
            ) from error

    def _requested(self, ranges: list[tuple[int, int, int]]) -> Iterator[bytes]:
        if isinstance(self._root, Url):
            urls = (Range(self._root / self._parts[part].file, *own) for part, *own in ranges)
            yield from storage.read_many(urls)
            return
        for part, own in itertools.groupby(ranges, key=lambda one: one[0]):
            places = [(offset, size) for _, offset, size in own]
            yield from storage.read_ranges(self._place(part), places)

    def _parsed(self, part: int, parse: Callable[..., Parsed], *values: object) -> Parsed:
        try:
            return parse(*values)
        except ValueError as error:
            raise self._damage(part, str(error)) from error

    def _damage(self, part: int, problem: str) -> DamageError:
        return DamageError(
            f"The index {self._place(part)} is damaged: {problem}. Run 'shardmill verify'."
        )


def open_lazily(root: Place, manifest: Manifest, split: str) -> SplitIndex:
    """The index of a split; one in parts is not opened yet.

    Raises:
        ShardSetError: A file is missing.
        DamageError: An index in one file has another number of rows than the split has records, or
            the list of shards is damaged.
    """
    if manifest.splits[split].index:
        return IndexInParts(root, manifest, split)
    return WholeIndex(checked_index(root, manifest, split))
