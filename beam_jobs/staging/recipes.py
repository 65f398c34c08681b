"""Recipes: which records a shard has, in which order, and the sidecar rows of these records.

A recipe is a file with a frame, which has a checksum: an Arrow stream with the columns unit, row
and key, and those that the record type planned. A unit is an index into the list in its metadata.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray, int64
from beam_jobs.staging.runs import Cell
from beam_jobs.staging.sidecars import Sidecars, take_rows
from beam_jobs.staging.units import dropping_damaged, read_sidecar, unit_files
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, frame, naming, unframe
from shard_format.keys import UInt64Array


class RecipeUnit(NamedTuple):
    """A unit that a recipe names.

    Attributes:
        key: Its content address.
        sha256: Checksum of its sidecar.
    """

    key: str
    sha256: str


class Recipe(NamedTuple):
    """The records of a shard, or of a merge.

    Attributes:
        units: The units that have them.
        rows: One row per record, in order.
    """

    units: Sequence[RecipeUnit]
    rows: pa.Table


def recipe_units(sidecars: Sidecars) -> list[RecipeUnit]:
    """All units, by their number."""
    return list(map(RecipeUnit, sidecars.keys, sidecars.sha256))


def write_recipe(
    workspace: Workspace, path: Place, batch: pa.RecordBatch, units: Sequence[RecipeUnit]
) -> None:
    """Writes a recipe."""
    sink = pa.BufferOutputStream()
    schema = batch.schema.with_metadata({"units": json.dumps(units)})
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    with workspace.write(path) as file:
        file.write(frame(sink.getvalue().to_pybytes()))


def read_recipe(place: Place) -> Recipe:
    """A recipe that `write_recipe` wrote.

    Raises:
        InputError: It is damaged. Every build writes its recipes again.
    """
    with dropping_damaged(lambda: storage.delete(place)):
        stream = unframe(storage.read_bytes(place), str(place))
    rows = pa.ipc.open_stream(stream).read_all()
    units = json.loads(rows.schema.metadata[b"units"])
    return Recipe([RecipeUnit(*unit) for unit in units], rows)


def recipe_rows(recipe: Recipe, unused: list[str], workspace: Workspace) -> pa.Table:
    """The sidecar rows in the order of a recipe, with its other columns.

    Args:
        recipe: It has rows.
        unused: Columns of the sidecar to leave out.
        workspace: Where the units are.

    Raises:
        InputError: A unit was damaged or removed.
    """

    def columns_of(unit: int) -> pa.Table:
        try:
            return read_sidecar(workspace, *recipe.units[unit]).drop_columns(unused)
        except FileNotFoundError as error:
            path = unit_files(workspace, recipe.units[unit].key)["arrow"]
            raise InputError(
                f"The staged file {path} was removed during the build. Run the same command again."
            ) from error

    units, rows = int64(recipe.rows["unit"]), int64(recipe.rows["row"])
    remote = storage.local_path(workspace.units) is None
    table = take_rows(units, rows, columns_of, remote=remote).combine_chunks()
    # A copy of a record has a key of its own.
    table = table.set_column(table.column_names.index("key"), "key", recipe.rows["key"])
    for name in recipe.rows.column_names:
        if name not in table.column_names:
            table = table.append_column(name, recipe.rows[name].combine_chunks())
    return table


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
