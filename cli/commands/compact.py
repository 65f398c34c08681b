"""`shardmill compact`: merge the generations of a set, and remove records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.places import FILE, PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from shard_format.storage import Place

_SHOWN_IDS = 20


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option(
    "--remove",
    metavar="FILE",
    type=FILE,
    help="Take records out of every file of the set: a text file with a record id per line.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def compact(directory: Place, remove: Place | None, as_json: bool) -> None:
    """Merge the generations of a set into balanced, globally shuffled shards.

    Nothing is decoded again: shards are sorted, and records are copied. There is a whole set at
    every moment; if the command is interrupted, run it again. Whoever reads an older generation
    must open the set again. Until the end it takes as much disk space again as the set.

    With --remove, records are also gone from index, quarantine, duplicates, stored fingerprints and
    the report. Copies in --staging folders, in caches and in other sets are not.

    \b
    Examples:
      shardmill compact set
      shardmill compact set --remove ids.txt
    """
    from beam_jobs.generations.compact import compact as merge
    from cli.console import Bars, print_json, say
    from shard_format.wording import counted

    ids = _ids(remove) if remove is not None else frozenset()
    with Bars() as bars:
        found = merge(
            directory,
            ids,
            lambda stage, done, total: bars.update(stage, done, total, "bytes"),
            bars.note,
        )
    if as_json:
        print_json(
            found.manifest.summary()
            | {
                "merged": found.merged,
                "removed": found.removed,
                "not_found": found.not_found,
                "changed": found.changed,
            }
        )
        return
    if not found.changed:
        say(f"{directory} is one generation already; nothing to do")
    elif found.merged > 1:
        say(f"merged     {found.merged} generations of {directory}")
    if ids:
        say(f"removed    {counted(found.removed, 'record')}")
    if found.not_found:
        shown = ", ".join(map(repr, found.not_found[:_SHOWN_IDS]))
        more = len(found.not_found) - _SHOWN_IDS
        of_more = f" and {more:,} more; --json lists all" if more > 0 else ""
        say(f"not found  {counted(len(found.not_found), 'id')}: {shown}{of_more}")
    say(f"root hash  {found.manifest.root_hash}")


def _ids(file: Place) -> frozenset[str]:
    """The lines of a file.

    Raises:
        InputError: It cannot be read, or has no id.
    """
    from shard_format import InputError, storage
    from shard_format.errors import file_error

    try:
        text = storage.read_bytes(file).decode()
    except OSError as error:
        raise file_error(error, str(file)) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error}. Write one record id per line.") from error
    ids = frozenset(line for line in text.splitlines() if line)
    if not ids:
        raise InputError(f"{file} has no record id. Write one per line.")
    return ids
