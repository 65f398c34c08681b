"""`shardmill quarantine`: list, export and replay the records that a build rejected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beam_jobs.options import OPTIONS
from cli.options import click_options
from cli.places import LOCAL, PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place
    from shard_format.dropped import RejectedRecord

_DIRECTORY = click.argument("directory", metavar="DIR", type=PLACE)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
_SHOWN_RECORDS = 50  # of one reason, on a terminal; --json has all


@click.group()
def quarantine() -> None:
    """List, export or replay the records that a build rejected."""


@quarantine.command(name="list")
@_DIRECTORY
@click.option("--reason", metavar="NAME", help="Show the records of this reason.")
@_JSON
def list_reasons(directory: Place, reason: str | None, as_json: bool) -> None:
    """Show the reasons for which records were rejected or filtered, and how many.

    \b
    Examples:
      shardmill quarantine list set
      shardmill quarantine list set --reason truncated
    """
    from beam_jobs.corpus.names import shown_name
    from beam_jobs.quarantine import check_reasons, reasons, rejected_records
    from cli.console import bar_if_long, print_json, print_table, say, table
    from foundation.wording import format_bytes

    if reason is not None:
        with bar_if_long("list"):
            check_reasons(directory, [reason])
            chosen = [one for one in rejected_records(directory) if one.reason == reason]
        _list_records(chosen, as_json)
        return
    with bar_if_long("list"):
        refused = reasons(directory)
    if as_json:
        print_json({"directory": str(directory), "reasons": [one._asdict() for one in refused]})
        return
    if not refused:
        say(f"no record of {directory} was rejected")
        return
    rows = table("Quarantine", "reason", "records", "size", "first record", right=("records",))
    rows.columns[2].justify = "right"
    for one in refused:
        name = f"{one.reason} (filter)" if one.stage == "filter" else one.reason
        rows.add_row(name, f"{one.records:,}", format_bytes(one.bytes), shown_name(one.record_id))
    print_table(rows)
    say(f"next       shardmill quarantine export {directory} --to FOLDER")


def _list_records(records: list[RejectedRecord], as_json: bool) -> None:
    from beam_jobs.corpus.names import shown_name
    from cli.console import print_json, say, stdout, table
    from foundation.wording import visible

    if as_json:
        print_json({"records": [record._asdict() for record in records]})
        return
    shown = table("Records", "record", "detail")
    for record in records[:_SHOWN_RECORDS]:
        shown.add_row(shown_name(record.record_id), visible(record.detail))
    stdout().print(shown)
    if len(records) > _SHOWN_RECORDS:
        say(f"and {len(records) - _SHOWN_RECORDS:,} more; --json lists all")


@quarantine.command()
@_DIRECTORY
@click.option(
    "--to",
    "folder",
    required=True,
    metavar="FOLDER",
    type=LOCAL,
    help="An empty or a new folder.",
)
@click.option("--reason", "chosen", multiple=True, metavar="NAME", help="A reason; repeatable.")
@_JSON
def export(directory: Place, folder: Path, chosen: tuple[str, ...], as_json: bool) -> None:
    """Write the original files to FOLDER/files, and their reasons to FOLDER/quarantine.tsv.

    \b
    Examples:
      shardmill quarantine export set --to refused
      shardmill quarantine export set --to refused --reason truncated --reason corrupt
    """
    from beam_jobs.quarantine import FILES, TABLE
    from beam_jobs.quarantine import export as write
    from cli.console import Bars, print_json, say
    from foundation.wording import counted

    with Bars() as bars:
        done = write(
            directory,
            folder,
            chosen,
            lambda done, total: bars.update("export", done, total, "records"),
        )
    if as_json:
        print_json({"folder": str(folder), **done._asdict()})
        return
    say(f"written    {done.written:,} files to {folder / FILES}")
    if done.without_bytes:
        say(f"note: {counted(done.without_bytes, 'record')} without original bytes; see the table")
    if done.in_source:
        say(
            f"note: {counted(done.in_source, 'file')} that no row of --labels names, in the source "
            "alone; complete the table, then: shardmill quarantine replay "
            f"{directory} --labels FILE"
        )
    say(f"reasons    {folder / TABLE}")
    if done.written:
        say(
            f"next       repair files there, then: shardmill quarantine replay {directory} {folder}"
        )


@quarantine.command()
@_DIRECTORY
@click.argument("repaired", required=False, metavar="[FOLDER]", type=PLACE)
@click.option(
    "--sources",
    multiple=True,
    metavar="SRC",
    help="Where the corpus is now, if it has moved; repeatable.",
)
@click.option("--out", metavar="NEW", help="Build here and do not replace DIR.")
@click_options([*OPTIONS.values()], unset=True)
@_JSON
def replay(
    directory: Place,
    repaired: Place | None,
    sources: tuple[str, ...],
    out: str | None,
    as_json: bool,
    **changes: Any,
) -> None:
    """Build DIR again with the repaired files of FOLDER, or with other options.

    The result has the same bytes as a set built from the repaired corpus. The corpus is read
    again; if DIR was built with --staging, only units with repaired files are prepared again. Of
    a set with several generations each is built again, from its own sources. Of a set from lists
    of URLs with --keep-originals, servers that failed are asked again, and no others.

    \b
    Examples:
      shardmill quarantine replay set refused
      shardmill quarantine replay set
      shardmill quarantine replay set --lenient
      shardmill quarantine replay set refused --out set-2 --min-side 64
    """
    import dataclasses

    from beam_jobs.quarantine import may_ask_again, replay_options
    from beam_jobs.replacement import replacement_at
    from cli.commands.preprocess import build_set
    from cli.console import say
    from shard_format import UsageError, load_manifest

    changes = {name: value for name, value in changes.items() if value is not None}
    if repaired is None and not changes and not may_ask_again(directory):
        raise UsageError(
            "Nothing to change: pass a FOLDER of repaired files, or another option. 'shardmill "
            f"quarantine export {directory} --to FOLDER' writes the files to repair."
        )
    if out is None:
        replacement_at(directory)  # of one that was killed, the set gets its name back
    if load_manifest(directory).generations:
        _replay_generations(directory, repaired, sources, changes, out, as_json=as_json)
        return
    options = replay_options(directory, repaired, sources, changes)
    if out is not None:
        build_set(dataclasses.replace(options, out=out), [], as_json)
        return
    options = dataclasses.replace(options, out=str(directory), overwrite=True)
    build_set(options, [], as_json, shown=str(directory))
    if not as_json:
        say(f"replaced   {directory}")


def _replay_generations(
    directory: Place,
    repaired: Place | None,
    sources: tuple[str, ...],
    changes: dict[str, Any],
    out: str | None,
    *,
    as_json: bool,
) -> None:
    from beam_jobs.generations.replay import replay_generations
    from cli.console import Bars, native_noise_kept, print_json, say

    units = {"list": "files", "stage": "bytes"}
    with native_noise_kept() as stderr, Bars(stderr) as bars:

        def show(stage: str, done: int, total: int) -> None:
            bars.update(stage, done, total, units.get(stage, "records"))

        manifest = replay_generations(directory, repaired, sources, changes, out, show, bars.note)
    if as_json:
        print_json(manifest.summary())
        return
    ledger = manifest.ledger
    kept_out = f", kept out {ledger.excluded:,}" if ledger.excluded else ""
    counts = f"read       {ledger.read:,}, kept {ledger.kept:,}, quarantined {ledger.quarantined:,}"
    say(counts + kept_out)
    done = f"built      {out}" if out else f"replaced   {directory}"
    say(f"{done}; 'shardmill log' lists the generations")
