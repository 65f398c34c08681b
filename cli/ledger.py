"""The ledger and the splits of a shard set, for a terminal."""

from __future__ import annotations

import textwrap
from typing import Any

from beam_jobs.set_warnings import set_warnings
from cli.console import print_table, say, table
from foundation.wording import format_bytes
from shard_format import Manifest

_WIDTH = 80  # columns of a warning


def print_ledger(manifest: Manifest, build: dict[str, Any], ignored: int | None = None) -> None:
    """Prints the outcome of every record, the splits, and notes on the build."""
    ledger = manifest.ledger
    rows = table("Ledger", "", "records", right=("records",))
    rows.add_row("read", f"{ledger.read:,}")
    rows.add_row("  kept", f"{ledger.kept:,}")
    rows.add_row("  duplicates", f"{ledger.duplicates:,}")
    rows.add_row("  filtered", f"{ledger.filtered:,}")
    rows.add_row("  quarantined", f"{ledger.quarantined:,}")
    if ledger.excluded:
        rows.add_row("  kept out", f"{ledger.excluded:,}")
    if ledger.reasons:
        rows.add_row("filtered and quarantined for", "")
    for reason, count in sorted(ledger.reasons.items(), key=lambda item: -item[1]):
        rows.add_row(f"  {reason}", f"{count:,}")
    if ledger.repeated:
        rows.add_row("repeated to balance", f"{ledger.repeated:,}")
    if ledger.not_enlarged:
        rows.add_row("not enlarged to --resize", f"{ledger.not_enlarged:,}")
    if ledger.dropped_objects:
        rows.add_row("objects left out of kept images for", "")
    for problem, count in sorted(ledger.dropped_objects.items(), key=lambda item: -item[1]):
        rows.add_row(f"  {problem}", f"{count:,}")
    print_table(rows)
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
    print_table(splits)
    for note in build.get("notes", []):
        say(f"note: {note}")
    if ignored:
        say(f"note: {ignored} hidden files or folders, or files without records, were not read")
    say(f"root hash  {manifest.root_hash}")


def print_warnings(manifest: Manifest, build: dict[str, Any]) -> None:
    """Prints what makes a set unfit for its use, where it is read: at the end of the output."""
    for warning in set_warnings(manifest, build):
        say(
            textwrap.fill(
                f"warning: {warning}", _WIDTH, break_long_words=False, break_on_hyphens=False
            )
        )
