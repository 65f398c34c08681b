"""`shardmill cache`: list the copies of shard sets on this disk, and delete them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.places import LOCAL

if TYPE_CHECKING:
    from reader.cache.inventory import CachedItem

_SHOWN_HASH = 12  # characters of a root hash: enough to distinguish sets


@click.command()
@click.argument("directory", metavar="[DIR]", required=False, type=LOCAL)
@click.option("--clear", is_flag=True, help="Delete all copies that no running process reads.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def cache(directory: Path | None, clear: bool, as_json: bool) -> None:
    """List the copies in a cache directory, or delete them.

    DIR is the value of --cache-dir (default: ~/.cache/shardmill). Copies make reading faster;
    without them sets are read from their source, so they may be deleted at any time.

    \b
    Examples:
      shardmill cache
      shardmill cache /scratch/cache --clear
    """
    from cli.console import bar_if_long, print_json, say
    from foundation.wording import counted, format_bytes
    from reader.cache.choosing import default_cache_dir

    directory = directory or default_cache_dir()
    with bar_if_long("delete" if clear else "list"):
        entries = _found(directory, clear)
    total = sum(entry.bytes for entry in entries)
    if as_json:
        print_json(
            {
                "directory": str(directory),
                "bytes": total,
                "deleted" if clear else "copies": [dataclasses.asdict(entry) for entry in entries],
            }
        )
    elif clear:
        say(f"deleted    {counted(len(entries), 'copy', 'copies')}, {format_bytes(total)}")
    elif not entries:
        say(f"{directory} holds no copy of a shard set")
    else:
        _show(entries)
        say(f"in all     {format_bytes(total)} in {directory}")
        say(f"next       shardmill cache {directory} --clear")


def _found(directory: Path, clear: bool) -> list[CachedItem]:
    """The copies, or those that were deleted. Looking at a directory does not make it a cache."""
    from reader.cache.store import Store
    from shard_format import UsageError

    try:
        if not Store.is_at(directory):
            return []
        store = Store(directory)
        return store.clear() if clear else store.entries()
    except OSError as error:
        raise UsageError(
            f"Cannot write to the cache directory {directory}: '{error.strerror}'. Grant "
            "permission, or pass another one."
        ) from error


def _show(entries: Sequence[CachedItem]) -> None:
    """A row for every set and split that has copies."""
    import datetime

    from cli.console import print_table, table
    from foundation.wording import format_bytes

    rows: dict[tuple[str, str], list[CachedItem]] = {}
    for entry in entries:
        root, _, rest = entry.name.partition("/")
        rows.setdefault((root[:_SHOWN_HASH], _what(rest)), []).append(entry)
    shown = table("Copies", "set", "what", "files", "size", "last opened", right=("files", "size"))
    for (root, what), some in sorted(rows.items()):
        used = datetime.datetime.fromtimestamp(max(entry.used for entry in some))
        in_use = ", in use" if any(entry.in_use for entry in some) else ""
        size = format_bytes(sum(entry.bytes for entry in some))
        shown.add_row(root, what, f"{len(some):,}", size, f"{used:%Y-%m-%d %H:%M}{in_use}")
    print_table(shown)


def _what(rest: str) -> str:
    """The kind of an item, by its name relative to its set."""
    from shard_format.naming import parse_shard_file

    shard = parse_shard_file(rest)
    if shard is not None:
        return f"{shard.name} {shard.split}"
    if rest.startswith("decoded-"):
        return f"{rest.partition('/')[2]} decoded"
    return "manifest and index"
