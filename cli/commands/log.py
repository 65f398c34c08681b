"""`shardmill log`: the generations of a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.places import PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def log(directory: Place, as_json: bool) -> None:
    """Show the generations of a set: when and from what each was built, and what it added.

    \b
    Examples:
      shardmill log set
      shardmill log set --json
    """
    from beam_jobs.generations.log import generations
    from cli.console import print_json, say
    from foundation.wording import counted, format_bytes

    history = generations(directory)
    if as_json:
        print_json({"generations": [one.as_json() for one in history]})
        return
    for one in history:
        splits = ", ".join(f"{name} {count:,}" for name, count in one.records.items())
        dropped = counted(one.ledger.duplicates, "duplicate")
        say(
            f"generation {one.number}  {one.started or 'time unknown'}  "
            f"{counted(one.ledger.kept, 'record')} ({splits}), {format_bytes(one.bytes)}; "
            f"{dropped}, {one.ledger.quarantined:,} quarantined"
        )
        say(f"  sources    {', '.join(one.sources) or 'unknown'}")
        say(f"  root hash  {one.view}")
