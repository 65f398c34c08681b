"""`shardmill diff`: what differs between two shard sets, or two generations of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from cli.places import FILE, PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place
    from shard_format.set_comparison import SetComparison

_SHOWN_CLASSES = 10
_SHOWN_IDS = 3
_VALUE_WIDTH = 44  # characters of the value of an option
_LEDGER = ("read", "kept", "duplicates", "filtered", "quarantined", "excluded")


@click.command()
@click.argument("before", metavar="A", type=PLACE)
@click.argument("after", metavar="[B]", type=PLACE, required=False)
@click.option("--generation-a", type=click.IntRange(min=0), metavar="N", help="Generation of A.")
@click.option("--generation-b", type=click.IntRange(min=0), metavar="N", help="Generation of B.")
@click.option(
    "--to",
    metavar="FILE",
    type=FILE,
    help="Write a row for each record that differs: a Parquet file with record_id, what, changed, "
    "split_before, label_before, split_after and label_after.",
)
@click.option(
    "--ids",
    type=click.Choice(["added", "removed", "changed"]),
    help="Print the ids of these records alone, as --exclude-ids and compact --remove take them in "
    "a file *.txt. With --json as a list.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def diff(
    before: Place,
    after: Place | None,
    generation_a: int | None,
    generation_b: int | None,
    to: Place | None,
    ids: str | None,
    as_json: bool,
) -> None:
    """Show what differs between two shard sets: records, options, ledger, splits and classes.

    Records are joined by their ids and compared by the index: fingerprint, length, labels, split,
    and the other columns that both sets have. No shard is read. Without B, two generations of A are
    compared. The exit code is 0 whether the sets differ or not; "equal" of --json says it.

    \b
    Examples:
      shardmill diff last-year this-year
      shardmill diff set --generation-a 0
      shardmill diff old new --ids removed > removed.txt
      shardmill diff s3://bucket/old s3://bucket/new --to differences.parquet --json
    """
    from cli.console import print_json, say
    from foundation import storage
    from shard_format import UsageError
    from shard_format.set_comparison import compare_sets

    if after is None and generation_a is None and generation_b is None:
        raise UsageError("There is one set, and no generation of it. Name another set as B.")
    if to is not None and any(storage.overlap(to, one) for one in (before, after or before)):
        raise UsageError(f"--to {to} is in a set. Write it elsewhere.")
    compared = compare_sets(before, after or before, generation_a, generation_b)
    if to is not None:
        compared.write(to)
    if as_json:
        listed = {"ids": compared.ids(ids).to_pylist()} if ids else {}
        print_json(compared.as_json() | listed)
    elif ids:
        _print_ids(compared.ids(ids).to_pylist(), ids)
    else:
        _print_summary(compared)
        if to is not None:
            say(f"records    {to}")


def _print_ids(ids: list[str], what: str) -> None:
    from cli.console import say
    from shard_format import UsageError

    if any("\n" in one for one in ids):
        raise UsageError(f"An id of the {what} records has a line feed. Use --ids with --json.")
    for one in ids:
        say(one)


def _print_summary(compared: SetComparison) -> None:
    from cli.console import print_table, say, table
    from foundation.options import flag_of
    from foundation.wording import format_bytes, shortened, visible

    sides = compared.before, compared.after
    manifests = [side.manifest for side in sides]
    counts = compared.counts()
    rows = table("Records", "", "records", "for example", right=("records",))
    rows.add_row("same", f"{counts['same']:,}", "")
    for what in ("added", "removed", "changed"):
        shown = compared.ids(what).slice(0, _SHOWN_IDS).to_pylist()
        names = ", ".join(shortened(visible(one), _VALUE_WIDTH // 2) for one in shown)
        rows.add_row(what, f"{counts[what]:,}", names)
    for name in ("payload", "label", "split"):
        if counts[f"changed_{name}"]:
            rows.add_row(f"  {name}", f"{counts[f'changed_{name}']:,}", "")
    print_table(rows)

    rows = table("Ledger and splits", "", "A", "B", right=("A", "B"))
    for name in _LEDGER:
        rows.add_row(name, *(f"{getattr(one.ledger, name):,}" for one in manifests))
    for split in dict.fromkeys(name for one in manifests for name in one.splits):
        infos = [one.splits.get(split) for one in manifests]
        sizes = [f"{one.records:,} in {format_bytes(one.bytes)}" if one else "-" for one in infos]
        rows.add_row(f"split {split}", *sizes)
    print_table(rows)
    _print_classes(compared)
    if compared.options:
        rows = table("Options", "option", "A", "B")
        for name, values in compared.options.items():
            shown = [shortened(visible(json.dumps(one)), _VALUE_WIDTH) for one in values]
            rows.add_row(flag_of(name), *shown)
        print_table(rows)
    for side, (place, manifest) in zip("AB", sides, strict=True):
        say(f"{side}          {place}, generation {manifest.newest}, {manifest.root_hash[:16]}")


def _print_classes(compared: SetComparison) -> None:
    """Prints the classes with other numbers of records, those that differ most first."""
    from cli.console import print_table, say, table
    from foundation.wording import shortened, visible

    counts: dict[tuple[str, str], list[int]] = {}
    for at, (_, manifest) in enumerate((compared.before, compared.after)):
        for split, info in manifest.splits.items():
            for name, count in info.statistics.get("class_counts", {}).items():
                counts.setdefault((name, split), [0, 0])[at] = count
    differing = sorted(
        ((names, own) for names, own in counts.items() if own[0] != own[1]),
        key=lambda one: (-abs(one[1][1] - one[1][0]), one[0]),
    )
    if not differing:
        return
    rows = table("Classes", "class", "split", "A", "B", right=("A", "B"))
    for (name, split), own in differing[:_SHOWN_CLASSES]:
        shown = shortened(visible(name), _VALUE_WIDTH)
        rows.add_row(shown, split, *(f"{count:,}" for count in own))
    print_table(rows)
    if len(differing) > _SHOWN_CLASSES:
        say(f"and {len(differing) - _SHOWN_CLASSES:,} more; --json lists all")
