"""Quarantine and duplicates of a shard set, for a terminal."""

from __future__ import annotations

from typing import Any

from beam_jobs.corpus.names import shown_name
from cli.console import print_table, say, table
from foundation.storage import Place
from foundation.wording import counted, shortened, visible
from shard_format import DamageError, Manifest
from shard_format.dropped import Refused, read_refused
from shard_format.duplicates import DuplicateCounts, count_duplicates

_EXAMPLE_WIDTH = 300  # characters; a table folds them into a few lines


def dropped_json(directory: Place, manifest: Manifest) -> dict[str, Any]:
    """Duplicates and quarantine for --json; null where a file of the set is damaged."""
    dropped, _ = _read(directory, manifest)
    if dropped is None:
        return {"duplicate_clusters": None, "quarantine": None}
    duplicates, refused = dropped
    return {
        "duplicate_clusters": duplicates._asdict() if duplicates else None,
        "quarantine": [
            {
                "reason": item.reason,
                "records": item.records,
                "example": {
                    "record_id": item.record_id,
                    "label": item.label,
                    "stage": item.stage,
                    "detail": item.detail,
                },
            }
            for item in refused
        ],
    }


def print_quarantine(directory: Place, manifest: Manifest) -> None:
    """Prints an example for every reason of rejection."""
    dropped, _ = _read(directory, manifest)
    if dropped is None or not dropped[1]:
        return
    rows = table("Quarantine", "reason", "records", "example", right=("records",))
    for item in dropped[1]:
        example = f"{shown_name(item.record_id)}: {visible(item.detail)}"
        rows.add_row(visible(item.reason), f"{item.records:,}", shortened(example, _EXAMPLE_WIDTH))
    print_table(rows)


def print_duplicates(directory: Place, manifest: Manifest) -> None:
    """Prints the number of duplicates, or what is missing to count them."""
    dropped, problem = _read(directory, manifest)
    if dropped is None:
        say(f"note: {problem}")
        return
    duplicates, _ = dropped
    if duplicates is not None and duplicates.clusters:
        kinds = f"{duplicates.exact:,} exact and {duplicates.near:,} near copies"
        say(
            f"duplicates {counted(duplicates.clusters, 'cluster')} ({kinds}), "
            f"{duplicates.conflicts:,} with conflicting labels"
        )
    if duplicates is not None and duplicates.others:
        say(f"others     {counted(duplicates.others, 'record')} in other sets, see --against")


def _read(
    directory: Place, manifest: Manifest
) -> tuple[tuple[DuplicateCounts | None, list[Refused]] | None, str]:
    """The contents, or why they cannot be read: without them, inspect still shows the manifest."""
    try:
        return (count_duplicates(directory, manifest), read_refused(directory, manifest)), ""
    except DamageError as error:
        return None, str(error)
