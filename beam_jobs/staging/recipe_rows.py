"""The sidecar rows of records that a recipe names."""

from __future__ import annotations

import json

import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.staging.sidecars import take_rows
from beam_jobs.staging.units import unit_files
from beam_jobs.workspace import Workspace, read_table
from shard_format import InputError, storage


def recipe_units(recipe: pa.Table) -> list[str]:
    """The keys of the units of a recipe; "unit" of a row is an index into them."""
    return [str(key) for key in json.loads(recipe.schema.metadata[b"units"])]


def recipe_rows(recipe: pa.Table, unused: list[str], workspace: Workspace) -> pa.Table:
    """The sidecar rows in the order of a recipe, with its other columns.

    Args:
        recipe: See `stages.plan.recipes`; it has rows.
        unused: Columns of the sidecar to leave out.
        workspace: Where the units are.

    Raises:
        InputError: A unit was removed.
    """
    keys = recipe_units(recipe)

    def columns_of(unit: int) -> pa.Table:
        path = unit_files(workspace, keys[unit])["arrow"]
        try:
            return read_table(path).drop_columns(unused)
        except FileNotFoundError as error:
            raise InputError(
                f"The staged file {path} was removed during the build. Run the same command again."
            ) from error

    units, rows = int64(recipe["unit"]), int64(recipe["row"])
    remote = storage.local_path(workspace.units) is None
    table = take_rows(units, rows, columns_of, remote=remote).combine_chunks()
    # A copy of a record has a key of its own.
    table = table.set_column(table.column_names.index("key"), "key", recipe["key"])
    for name in recipe.column_names:
        if name not in table.column_names:
            table = table.append_column(name, recipe[name].combine_chunks())
    return table
