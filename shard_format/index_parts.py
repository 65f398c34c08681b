"""The index of a split, opened by what the manifest says of it; nobody else knows its files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from foundation.storage import Place
from shard_format.index import open_index
from shard_format.manifest import Manifest


def open_split_index(root: Place, manifest: Manifest, split: str) -> pa.Table:
    """The index of a split as a table; see `open_index`.

    Args:
        root: The set.
        manifest: Manifest of the set.
        split: Name of the split.

    Raises:
        ShardSetError: A file is missing.
        DamageError: A file is not an Arrow file, or lacks a column.
    """
    return open_index(root / manifest.index_file(split))


def open_shard_rows(root: Place, manifest: Manifest, split: str, shard: int) -> pa.Table:
    """The rows of one shard of a split, in order; see `open_split_index`."""
    index = open_split_index(root, manifest, split)
    return index.filter(pc.equal(index["shard"], shard))
