"""Recipes: which records a shard has, and in which order."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.staging.recipes import RecipeUnit, write_recipe
from beam_jobs.staging.runs import Cell
from beam_jobs.workspace import Workspace
from shard_format import naming
from shard_format.keys import UInt64Array


class ShardSpec(NamedTuple):
    """One shard to write.

    Attributes:
        split: The split it belongs to.
        shard: Its number in [0, num_shards).
        file: Its name in the shard set.
        recipe: Path of a file of `staging.recipes`. Empty if the shard is read from merged runs.
        recipe_key: Content address of everything that decides the bytes of the shard.
        records: Number of its records.
        cells: Its parts of merged runs.
    """

    split: str
    shard: int
    file: str
    recipe: str
    recipe_key: str
    records: int
    cells: tuple[Cell, ...] = ()


_Piece = tuple[IntArray, IntArray, UInt64Array]  # units, rows, keys

# From units and rows to the further columns of a recipe.
RecipeColumns = Callable[[IntArray, IntArray], Mapping[str, pa.Array]]


@dataclasses.dataclass
class RecipeWriter:
    """Collects rows in key order and writes the recipe of a shard as soon as it is complete.

    Attributes:
        workspace: The build.
        name: Name of the shard set.
        num_shards: Number of shards of every split.
        units: Every unit, by its number.
        salt: What decides the bytes of every shard, besides its rows.
        columns: The columns that the record type planned.
    """

    workspace: Workspace
    name: str
    num_shards: Mapping[str, int]
    units: Sequence[RecipeUnit]
    salt: bytes
    columns: RecipeColumns = lambda units, rows: {}
    _open: dict[str, tuple[int, list[_Piece]]] = dataclasses.field(init=False, default_factory=dict)
    _specs: list[ShardSpec] = dataclasses.field(init=False, default_factory=list)

    def append(
        self, split: str, shard_of: IntArray, units: IntArray, rows: IntArray, keys: UInt64Array
    ) -> None:
        """Adds rows of one split; shard numbers never decrease from call to call."""
        edges = np.flatnonzero(np.diff(shard_of)) + 1
        for piece in np.split(np.arange(len(shard_of)), edges):
            if not len(piece):
                continue
            shard = int(shard_of[piece[0]])
            current, pieces = self._open.get(split, (shard, []))
            if shard != current:
                self._write(split, current, pieces)
                pieces = []
            self._open[split] = (shard, [*pieces, (units[piece], rows[piece], keys[piece])])

    def finish(self) -> list[ShardSpec]:
        """Writes the open recipes; the spec of every shard, by split and number."""
        for split, (shard, pieces) in self._open.items():
            self._write(split, shard, pieces)
        order = list(self.num_shards)
        return sorted(self._specs, key=lambda spec: (order.index(spec.split), spec.shard))

    def _write(self, split: str, shard: int, pieces: list[_Piece]) -> None:
        units, rows, keys = (np.concatenate(column) for column in zip(*pieces, strict=True))
        used = np.unique(units)
        columns = {
            "unit": pa.array(np.searchsorted(used, units).astype(np.int32)),
            "row": pa.array(rows.astype(np.int32)),
            # Distinguishes copies of a record, and is in the index.
            "key": pa.array(keys),
            **self.columns(units, rows),
        }
        own = [self.units[unit] for unit in used.tolist()]
        batch = pa.record_batch(columns)
        digest = hashlib.blake2b(self.salt, digest_size=16)
        digest.update(f"{split} {shard} {batch.schema}".encode())
        digest.update(json.dumps([unit.key for unit in own]).encode())
        digest.update(batch.serialize())
        path = self.workspace.plan / f"{split}-{shard:05d}.recipe"
        write_recipe(self.workspace, path, batch, own)
        file = naming.shard_file(self.name, split, shard, self.num_shards[split])
        self._specs.append(ShardSpec(split, shard, file, str(path), digest.hexdigest(), len(rows)))
