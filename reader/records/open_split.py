"""A split whose index is open and whose records are not read yet."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa

from reader.order.geometry import Geometry
from reader.order.numpy_order import Int64Array
from reader.records.split_index import SplitIndex
from shard_format import Manifest, Schema


@dataclasses.dataclass(frozen=True)
class OpenSplit:
    """A split whose index is open and whose records are not read yet.

    Attributes:
        root: Directory of the set.
        manifest: Manifest of the set.
        name: Name of the split.
        index: One row per record.
        geometry: Sizes of the parts in which it is read.
        selection: [n] int64, the numbers of the records that are read, ascending; None for all.
    """

    root: Path
    manifest: Manifest
    name: str
    index: SplitIndex
    geometry: Geometry
    selection: Int64Array | None = None

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of the index, of the records that are read."""
        column = self.index[name]
        return column if self.selection is None else column.take(pa.array(self.selection))

    @property
    def where(self) -> Path:
        """The index file, or the first part of the index, for messages."""
        return self.root / self.manifest.index_file(self.name)

    @property
    def schema(self) -> Schema:
        """Schema of the set."""
        return self.manifest.schema
