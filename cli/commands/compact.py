"""`shardmill compact`: merge the generations of a set, and remove records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from cli.places import FILE, PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place

_SHOWN_IDS = 20


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option(
    "--remove",
    metavar="FILE",
    type=FILE,
    help="Take records out of every file of the set: a text file with a record id per line, which "
    "ends with a line feed alone. In a file *.jsonl or *.ndjson each line is a JSON string, or an "
    'object with "record_id".',
)
@click.option(
    "--missing-ok",
    is_flag=True,
    help="Leave out ids that the set does not have. Otherwise they are an error, and nothing is "
    "removed.",
)
@click.option(
    "--receipt",
    metavar="FILE",
    type=FILE,
    help="Write what was asked for, found and removed, from which files, with the ids and the root "
    "hash of the set before and after, as JSON. build.json has the same without the ids.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def compact(
    directory: Place,
    remove: Place | None,
    missing_ok: bool,
    receipt: Place | None,
    as_json: bool,
) -> None:
    """Merge the generations of a set into balanced, globally shuffled shards.

    Nothing is decoded again: shards are sorted, and records are copied. There is a whole set at
    every moment; if the command is interrupted, run it again. Whoever reads an older generation
    must open the set again. Until the end it takes as much disk space again as the set.

    With --remove, records are also gone from index, quarantine, duplicates, stored fingerprints and
    the report, and hashes of them in removed.txt keep them out of all that is appended or built in
    place of the set. Copies in --staging folders, in caches and in other sets are not gone.

    \b
    Examples:
      shardmill compact set
      shardmill compact set --remove ids.txt
      shardmill compact set --remove ids.jsonl --missing-ok --receipt receipt.json
    """
    from beam_jobs.generations.compact import compact as merge
    from beam_jobs.record_ids import read_ids
    from cli.console import Bars, print_json, say
    from foundation import storage
    from foundation.errors import file_error
    from foundation.wording import counted
    from shard_format import UsageError
    from shard_format.removed_records import read_removed

    if missing_ok and remove is None:
        raise UsageError("--missing-ok is for the ids of --remove FILE. Pass that too.")
    if receipt is not None:
        if remove is None:
            raise UsageError("--receipt is for the ids of --remove FILE. Pass that too.")
        if storage.overlap(receipt, directory):
            raise UsageError(f"--receipt {receipt} is in the set. Write it elsewhere.")
    ids = read_ids(remove) if remove is not None else frozenset()
    with Bars() as bars:
        compacted = merge(
            directory,
            ids,
            lambda stage, done, total: bars.update(stage, done, total, "bytes"),
            bars.note,
            missing_ok=missing_ok,
        )
    written = None
    if compacted.receipt is not None:
        removed = read_removed(directory, compacted.manifest)  # by this command, or one before it
        gone = frozenset(filter(removed.has_id, ids))
        written = compacted.receipt | {"ids": sorted(gone), "not_found": sorted(ids - gone)}
    if receipt is not None:
        try:
            storage.write_bytes(receipt, json.dumps(written, indent=1).encode() + b"\n")
        except OSError as error:
            raise file_error(error, str(receipt)) from error
    if as_json:
        print_json(
            compacted.manifest.summary()
            | {
                "merged": compacted.merged,
                "removed": compacted.removed,
                "not_found": compacted.not_found,
                "changed": compacted.changed,
                "receipt": written,
            }
        )
        return
    if not compacted.changed:
        say(f"{directory} is one generation already; nothing to do")
    elif compacted.merged > 1:
        say(f"merged     {compacted.merged} generations of {directory}")
    if ids:
        through = written["removed"]["duplicates_of_removed"] if written else 0
        also = f", and {counted(through, 'duplicate')} of them" if through else ""
        say(f"removed    {counted(compacted.removed, 'record')}{also}")
    if compacted.not_found:
        shown = ", ".join(map(repr, compacted.not_found[:_SHOWN_IDS]))
        more = len(compacted.not_found) - _SHOWN_IDS
        of_more = f" and {more:,} more; --json lists all" if more > 0 else ""
        say(f"not found  {counted(len(compacted.not_found), 'id')}: {shown}{of_more}")
    say(f"root hash  {compacted.manifest.root_hash}")
