"""`shardmill report`: an HTML page about a shard set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.places import FILE, PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option(
    "--out",
    metavar="FILE",
    type=FILE,
    show_default="DIR/report.html",
    help="File to write.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def report(directory: Place, out: Place | None, as_json: bool) -> None:
    """Write a page with counts, histograms, samples, duplicates and rejected records.

    The page is one self-contained HTML file without scripts. It needs only the finished set, so it
    can be written again at any time. Without --out the set gets a README.md too, a card of the data
    set, unless somebody has edited the one that is there.

    \b
    Examples:
      shardmill report set
      shardmill report set --out review.html
      shardmill report set --json
    """
    from beam_jobs.report import write_report
    from cli.console import bar_if_long, print_json, say
    from foundation import storage
    from foundation.wording import format_bytes

    with bar_if_long("report"):
        page = write_report(directory, out)
    written = storage.stat(page)
    size = written.size if written else 0
    if as_json:
        print_json({"report": str(page), "bytes": size})
        return
    say(f"report     {page} ({format_bytes(size)})\nnext       open it in a browser")
