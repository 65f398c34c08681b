"""Recipes, and the sidecar rows of the records that they name.

A recipe is a file with a frame, which has a checksum: an Arrow stream with the columns unit, row
and key, and those that the record type planned. A unit is an index into the list in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.staging.sidecars import Sidecars, take_rows
from beam_jobs.staging.units import dropping_damaged, read_sidecar, unit_files
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, frame, unframe


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
