"""Statistics of documents and their tokens, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.console import print_table, say, stdout, table
from foundation.storage import Place
from foundation.wording import shortened, statistic, visible
from shard_format import DamageError, Manifest, ShardSetError, open_split_index
from shard_format.index import count_values
from shard_format.manifest import cleaning_steps

_SHOWN_VALUES = 12  # more languages would push the summary off the screen; --json has all
_NAME_WIDTH = 40
_PARAMETERS_WIDTH = 300  # characters; a table folds them into a few lines
_COLUMNS = {"language": "Languages", "source_encoding": "Encodings"}


def text_json(directory: Place, manifest: Manifest) -> dict[str, Any]:
    """Records by language and encoding, of each split, for --json.

    Lengths, vocabulary and packing are in the statistics. Null if there is no such column or the
    index cannot be read; empty for sets of other records.
    """
    if manifest.schema.record_type != "text":
        return {}
    columns, _ = _counts(directory, manifest)
    return {
        name: {split: _named(counts) for split, counts in columns[column].items()}
        if column in columns
        else None
        for column, name in (("language", "languages"), ("source_encoding", "source_encodings"))
    }


def print_text(directory: Place, manifest: Manifest) -> None:
    """Prints vocabulary, packing, languages and encodings of a text set."""
    if manifest.schema.record_type != "text":
        return
    for split, info in manifest.splits.items():
        for name, title in (("vocabulary", "Vocabulary"), ("packing", "Packing")):
            numbers = info.statistics.get(name)
            if isinstance(numbers, Mapping) and numbers:
                _print_numbers(title, split, numbers)
    columns, problem = _counts(directory, manifest)
    if problem:
        say(f"note: {problem}\n")
    for column, counts in columns.items():
        _print_counts(column, counts)


def print_cleaning(manifest: Manifest) -> int:
    """Prints the cleaning steps in order, with their parameters; returns their number."""
    steps = cleaning_steps(manifest.config)
    if steps:
        rows = table("Cleaning", "step", "parameters")
        for name, parameters in steps:
            rows.add_row(visible(name), shortened(visible(parameters), _PARAMETERS_WIDTH))
        print_table(rows)
    return len(steps)


def _print_numbers(title: str, split: str, numbers: Mapping[str, Any]) -> None:
    # The title of a narrow table wraps, so the header names the split.
    rows = table(title, f"of {split}", "value", right=("value",))
    for name, value in numbers.items():
        shown = statistic(name, value)
        if shown is not None:
            rows.add_row(visible(name).replace("_", " "), shortened(shown, _NAME_WIDTH))
    print_table(rows)


def _print_counts(column: str, counts: Mapping[str, Mapping[str | None, int]]) -> None:
    totals: dict[str | None, int] = {}
    for own in counts.values():
        for value, count in own.items():
            totals[value] = totals.get(value, 0) + count
    order = sorted(totals, key=lambda value: (-totals[value], value or ""))
    name = column.replace("_", " ")
    rows = table(_COLUMNS[column], name, *counts, right=tuple(counts))
    for value in order[:_SHOWN_VALUES]:
        name = "unknown" if value is None else shortened(visible(value), _NAME_WIDTH)
        rows.add_row(name, *(f"{own.get(value, 0):,}" for own in counts.values()))
    console = stdout()
    console.print(rows)
    if len(order) > _SHOWN_VALUES:
        console.print(f"and {len(order) - _SHOWN_VALUES} more; --json lists all")
    console.print()


def _counts(
    directory: Place, manifest: Manifest
) -> tuple[dict[str, dict[str, dict[str | None, int]]], str]:
    """Records by column, split and value; and why there are none if an index cannot be read."""
    columns: dict[str, dict[str, dict[str | None, int]]] = {}
    try:
        for split in manifest.splits:
            index = open_split_index(directory, manifest, split)
            for column in _COLUMNS:
                counts = count_values(index, column)
                if counts:
                    columns.setdefault(column, {})[split] = counts
    except (DamageError, ShardSetError) as error:
        return {}, str(error)
    return columns, ""


def _named(counts: Mapping[str | None, int]) -> dict[str, int]:
    return {"unknown" if value is None else value: count for value, count in counts.items()}
