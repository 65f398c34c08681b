"""The ledger and the splits of a shard set, for a terminal."""

from __future__ import annotations

from typing import Any

from cli.console import say, stdout, table
from shard_format import Manifest
from shard_format.wording import format_bytes

_SHOWN_CLASSES = 20  # more would push the summary off the screen; --json has all


def print_ledger(manifest: Manifest, build: dict[str, Any], ignored: int | None = None) -> None:
    """Prints where every record went, the splits, and how fast it was."""
    console = stdout()
    ledger = manifest.ledger
    rows = table("Ledger", "", "records", right=("records",))
    rows.add_row("read", f"{ledger.read:,}")
    rows.add_row("  kept", f"{ledger.kept:,}")
    rows.add_row("  duplicates", f"{ledger.duplicates:,}")
    rows.add_row("  filtered", f"{ledger.filtered:,}")
    rows.add_row("  quarantined", f"{ledger.quarantined:,}")
    for reason, count in sorted(ledger.reasons.items(), key=lambda item: -item[1]):
        rows.add_row(f"    {reason}", f"{count:,}")
    console.print(rows)
    console.print()
    splits = table("Splits", "split", "records", "shards", "size", "records per shard")
    for column in splits.columns[1:]:
        column.justify = "right"
    for name, split in manifest.splits.items():
        counts = [shard.records for shard in split.shards] or [0]
        spread = str(counts[0]) if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}"
        splits.add_row(
            name,
            f"{split.records:,}",
            str(len(split.shards)),
            format_bytes(split.bytes),
            spread,
        )
    console.print(splits)
    console.print()
    for note in build.get("notes", []):
        say(f"note: {note}")
    if ignored:
        say(f"note: {ignored} hidden files or folders were not read")
    say(f"root hash  {manifest.root_hash}")


def print_classes(manifest: Manifest) -> None:
    """Prints how many records of each class every split has."""
    names = list(manifest.splits)
    rows = table("Classes", "class", *names, right=tuple(names))
    counts = {
        name: split.statistics.get("class_counts", {}) for name, split in manifest.splits.items()
    }
    classes = list(next(iter(counts.values()), {}))
    for class_name in classes[:_SHOWN_CLASSES]:
        rows.add_row(class_name, *(f"{counts[name].get(class_name, 0):,}" for name in names))
    console = stdout()
    console.print(rows)
    if len(classes) > _SHOWN_CLASSES:
        console.print(f"and {len(classes) - _SHOWN_CLASSES} more classes; --json lists all")
    console.print()


def print_statistics(manifest: Manifest) -> None:
    """Prints least, mean and greatest of every numeric column, over the first split."""
    for name, split in manifest.splits.items():
        numeric = {
            column: values
            for column, values in split.statistics.items()
            if isinstance(values, dict) and {"min", "max", "mean"} <= values.keys()
        }
        if not numeric:
            continue
        right = ("least", "mean", "greatest")
        rows = table(f"Statistics of {name}", "column", *right, right=right)
        for column, values in numeric.items():
            rows.add_row(
                column, f"{values['min']:,}", f"{values['mean']:,.1f}", f"{values['max']:,}"
            )
        console = stdout()
        console.print(rows)
        console.print()
