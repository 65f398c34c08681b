"""The records of a piece: read and parsed in blocks, then given one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import google_crc32c
import numpy as np

from foundation.storage import Place
from reader.access.examples import Values
from reader.cache.checked_records import CheckedRecordReader
from reader.conversion.base import Record
from reader.damage import SkippedRecords
from reader.opened_set import OpenedSet
from reader.order.numpy_order import Int64Array
from reader.records.split_index import open_lazily
from shard_format import DamageError, Feature, Manifest
from shard_format.example_parser import (
    ByteLists,
    ByteValues,
    Column,
    Examples,
    NumberLists,
    UnreadableExampleError,
    parse_examples,
)
from shard_format.feature_values import from_stored

_BLOCK_BYTES = 8 << 20  # 8 MiB of records


class SplitReader:
    """Reads records of one split.

    Args:
        directory: The shard set.
        manifest: Its manifest.
        split: Name of the split.
    """

    def __init__(self, directory: Place, manifest: Manifest, split: str) -> None:
        self._schema = manifest.schema
        self._stored = [part for feature in self._schema.features for part in feature.stored]
        self._index = open_lazily(directory, manifest, split)
        self._reader = CheckedRecordReader(
            directory,
            manifest.splits[split],
            self._index,
            directory / manifest.index_file(split),
            (),
            SkippedRecords(),
            f"Run 'shardmill verify {directory}': it names all that is damaged.",
            opened=OpenedSet(directory, manifest.root_hash),
        )

    def read(self, rows: Int64Array, first: int, *, decode: bool) -> Iterator[Record]:
        """Yields records, while those of the next block are read.

        Args:
            rows: [n] int64, their numbers in the split, n at least 1.
            first: Number of the first one among those that are written.
            decode: Whether they have values.

        Raises:
            ShardSetError: A shard cannot be read.
            DamageError: A record is damaged; names shard, byte offset and record id.
        """
        blocks = self._blocks(rows)
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._reader.read, blocks[0])
            for number, block in enumerate(blocks, 1):
                examples = coming.result()
                if number < len(blocks):
                    coming = pool.submit(self._reader.read, blocks[number])
                values = self._values(examples, block) if decode else [{} for _ in block]
                for place, own in enumerate(values):
                    example = examples.array(place)
                    yield Record(first, example.data, google_crc32c.value(example), own)
                    first += 1

    def _blocks(self, rows: Int64Array) -> list[Int64Array]:
        (lengths,) = self._index.take(("length",), rows)
        numbers = (np.cumsum(lengths) - lengths) // _BLOCK_BYTES
        return np.split(rows, np.flatnonzero(np.diff(numbers)) + 1)

    def _values(self, examples: Examples, rows: Int64Array) -> list[Values]:
        """The features of records, as `ExampleDecoder` has them with images as they are stored."""
        try:
            parsed = parse_examples(examples, self._stored)
        except UnreadableExampleError as error:
            where = self._reader.place_of(int(rows[error.number]))
            raise DamageError(f"Damaged record in {where}: {error}") from error
        records: list[Values] = [{} for _ in rows]
        for feature in self._schema.features:
            *groups, last = self._schema.paths[feature.name]
            for row, value in enumerate(self._feature(feature, parsed, rows)):
                inside = records[row]
                for group in groups:
                    inside = inside.setdefault(group, {})
                inside[last] = value
        return records

    def _feature(
        self, feature: Feature, parsed: dict[str, Column], rows: Int64Array
    ) -> Iterator[Any]:
        column = parsed[feature.name] if feature.is_flat else None
        if isinstance(column, NumberLists) and not feature.shape:  # one number, of any record
            yield from column.values.astype(feature.type.dtype).tolist()
            return
        parts = [_listed(parsed[part.name]) for part in feature.stored]
        for row, own in zip(rows.tolist(), zip(*parts, strict=True), strict=True):
            try:
                yield from_stored(feature, own)
            except ValueError as error:
                raise DamageError(
                    f"Feature {feature.name!r} is not {feature.kind} of shape "
                    f"{list(feature.shape)}: found {error} in {self._reader.place_of(row)}. Build "
                    "the set again."
                ) from error


def _listed(column: Column) -> Sequence[Sequence[Any]]:
    """What each example has in a column."""
    if isinstance(column, ByteValues):
        return [(value,) for value in column]
    values: Any = column.values
    if isinstance(column, ByteLists):
        values = list(column.values)
    splits = column.splits.tolist()
    return [values[begin:end] for begin, end in itertools.pairwise(splits)]
