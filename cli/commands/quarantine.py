"""`shardmill quarantine`: what a build refused, and how to get it in after all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from beam_jobs.options import ImageOptions, TextOptions
from cli.options import click_options

_DIRECTORY = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
_SHOWN_RECORDS = 50  # of one reason, on a terminal; --json has all


@click.group()
def quarantine() -> None:
    """List, export or replay what a build refused."""


@quarantine.command(name="list")
@_DIRECTORY
@click.option("--reason", metavar="NAME", help="Show the records of this reason.")
@_JSON
def list_reasons(directory: Path, reason: str | None, as_json: bool) -> None:
    """Show for which reasons records were refused or filtered, and how many.

    \b
    Examples:
      shardmill quarantine list set
      shardmill quarantine list set --reason truncated
    """
    from beam_jobs.quarantine import check_reasons, reasons, refused
    from cli.console import print_json, say, stdout, table
    from shard_format.wording import format_bytes, visible

    if reason is not None:
        check_reasons(directory, [reason])
        _list_records([row for row in refused(directory) if row["reason"] == reason], as_json)
        return
    found = reasons(directory)
    if as_json:
        print_json({"directory": str(directory), "reasons": [one._asdict() for one in found]})
        return
    if not found:
        say(f"{directory} refused no record")
        return
    rows = table("Quarantine", "reason", "records", "size", "first of them", right=("records",))
    rows.columns[2].justify = "right"
    for one in found:
        name = f"{one.reason} (filter)" if one.stage == "filter" else one.reason
        rows.add_row(name, f"{one.records:,}", format_bytes(one.bytes), visible(one.record_id))
    stdout().print(rows)
    stdout().print()
    say(f"next       shardmill quarantine export {directory} --to FOLDER")


def _list_records(rows: list[dict[str, Any]], as_json: bool) -> None:
    from cli.console import print_json, say, stdout, table
    from shard_format.wording import visible

    if as_json:
        print_json({"records": rows})
        return
    shown = table("Records", "record", "detail")
    for row in rows[:_SHOWN_RECORDS]:
        shown.add_row(visible(row["record_id"]), visible(row["detail"]))
    stdout().print(shown)
    if len(rows) > _SHOWN_RECORDS:
        say(f"and {len(rows) - _SHOWN_RECORDS:,} more; --json lists all")


@quarantine.command()
@_DIRECTORY
@click.option(
    "--to",
    "folder",
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="An empty or a new folder.",
)
@click.option("--reason", "chosen", multiple=True, metavar="NAME", help="Only this; repeatable.")
@_JSON
def export(directory: Path, folder: Path, chosen: tuple[str, ...], as_json: bool) -> None:
    """Write the original files out: FOLDER/files, and FOLDER/quarantine.tsv with the reasons.

    \b
    Examples:
      shardmill quarantine export set --to refused
      shardmill quarantine export set --to refused --reason truncated --reason corrupt
    """
    from beam_jobs.quarantine import FILES, TABLE
    from beam_jobs.quarantine import export as write
    from cli.console import Bars, print_json, say

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
        say(f"note: of {done.without_bytes:,} records no bytes were kept; the table has them")
    say(f"reasons    {folder / TABLE}")
    say(f"next       mend files there, then: shardmill quarantine replay {directory} {folder}")


@quarantine.command()
@_DIRECTORY
@click.argument(
    "repaired", required=False, metavar="[FOLDER]", type=click.Path(path_type=Path, exists=True)
)
@click.option(
    "--sources",
    multiple=True,
    metavar="SRC",
    help="Where the corpus lies now, if it has moved; repeatable.",
)
@click.option("--out", metavar="NEW", help="Leave DIR as it is and build here.")
@click_options([ImageOptions, TextOptions], unset=True)
@_JSON
def replay(
    directory: Path,
    repaired: Path | None,
    sources: tuple[str, ...],
    out: str | None,
    as_json: bool,
    **changes: Any,
) -> None:
    """Build DIR again with the mended files of FOLDER, or with other options.

    The result is, to the byte, the set of a build that never failed. The corpus is read again; with
    a set that was built with --staging, only units with mended files are prepared again.

    \b
    Examples:
      shardmill quarantine replay set refused
      shardmill quarantine replay set --lenient
      shardmill quarantine replay set refused --out set-2 --min-side 64
    """
    import dataclasses

    from beam_jobs.quarantine import Replacement, replay_options
    from cli.commands.preprocess import build_set
    from cli.console import say
    from shard_format import UsageError

    changes = {name: value for name, value in changes.items() if value is not None}
    if repaired is None and not changes:
        raise UsageError(
            "a replay must have a FOLDER of mended files or another option, got neither. Write "
            f"'shardmill quarantine export {directory} --to FOLDER' and mend what is there."
        )
    replacement = Replacement(directory)
    options = replay_options(directory, repaired, sources, changes)
    options = dataclasses.replace(options, out=out or str(replacement.new))
    build_set(options, [], as_json, shown=out or str(directory))
    if out is None:
        replacement.finish()
        if not as_json:
            say(f"replaced   {directory}")
