"""Recipes: which records a shard is made of, and in which order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.dedup.text.segment_removal import DROPPED_PARTS
from beam_jobs.workspace import Workspace, write_table
from shard_format import naming
from shard_format.keys import UInt64Array


class ShardSpec(NamedTuple):
    """One shard to write.

    Attributes:
        split: The split it belongs to.
        shard: Its number in [0, num_shards).
        file: Its name in the shard set.
        recipe: Path of an Arrow file with the columns unit, row and key, and dropped_parts if some
            may be; a unit is a position in the list of keys that its metadata holds under "units".
        recipe_key: Content address of everything that decides its bytes.
    """

    split: str
    shard: int
    file: str
    recipe: str
    recipe_key: str


class _Piece(NamedTuple):
    units: IntArray
    rows: IntArray
    keys: UInt64Array


# Takes units and rows, gives the parts to take out of each record: a large_list<int32>.
PartsOf = Callable[[IntArray, IntArray], pa.LargeListArray]


class RecipeWriter:
    """Collects rows in key order and writes each shard's recipe as soon as it is complete."""

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        num_shards: Mapping[str, int],
        keys: Sequence[str],
        salt: bytes,
        parts_of: PartsOf | None = None,
    ) -> None:
        self._workspace = workspace
        self._name = name
        self._num_shards = num_shards
        self._keys = keys
        self._salt = salt
        self._parts_of = parts_of
        self._open: dict[str, tuple[int, list[_Piece]]] = {}
        self._specs: list[ShardSpec] = []

    def append(
        self, split: str, shard_of: IntArray, units: IntArray, rows: IntArray, keys: UInt64Array
    ) -> None:
        """Adds rows of one split; shard numbers never fall from call to call."""
        edges = np.flatnonzero(np.diff(shard_of)) + 1
        for piece in np.split(np.arange(len(shard_of)), edges):
            if not len(piece):
                continue
            shard = int(shard_of[piece[0]])
            current, pieces = self._open.get(split, (shard, []))
            if shard != current:
                self._write(split, current, pieces)
                pieces = []
            self._open[split] = (shard, [*pieces, _Piece(units[piece], rows[piece], keys[piece])])

    def finish(self) -> list[ShardSpec]:
        """Writes what is open; every shard's spec, by split and number."""
        for split, (shard, pieces) in self._open.items():
            self._write(split, shard, pieces)
        order = list(self._num_shards)
        return sorted(self._specs, key=lambda spec: (order.index(spec.split), spec.shard))

    def _write(self, split: str, shard: int, pieces: list[_Piece]) -> None:
        units = np.concatenate([piece.units for piece in pieces])
        rows = np.concatenate([piece.rows for piece in pieces])
        parts = None if self._parts_of is None else self._parts_of(units, rows)
        rows = rows.astype(np.int32)
        digest = hashlib.blake2b(self._salt, digest_size=16)
        digest.update(f"{split} {shard}".encode())
        used = np.unique(units)
        keys = json.dumps([self._keys[unit] for unit in used.tolist()]).encode()
        units = np.searchsorted(used, units).astype(np.int32)
        key = np.concatenate([piece.keys for piece in pieces])
        # The keys tell which copy of a record it is: the index has them.
        for part in (keys, units.astype("<i4"), rows.astype("<i4"), key.astype("<u8")):
            digest.update(part if isinstance(part, bytes) else part.tobytes())
        path = self._workspace.plan / f"{split}-{shard:05d}.arrow"
        table = pa.table({"unit": units, "row": rows, "key": key})
        if parts is not None:
            digest.update(parts.offsets.to_numpy().astype("<i8").tobytes())
            digest.update(parts.values.to_numpy().astype("<i4").tobytes())
            table = table.append_column(DROPPED_PARTS, parts)
        table = table.replace_schema_metadata({"units": keys})
        write_table(self._workspace, path, table)
        file = naming.shard_file(self._name, split, shard, self._num_shards[split])
        self._specs.append(ShardSpec(split, shard, file, str(path), digest.hexdigest()))
