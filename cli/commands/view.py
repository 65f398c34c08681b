"""`shardmill view`: walk through a set in a browser."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING

import click

from cli.places import PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place

_SCREENS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")  # else Linux would take a browser of texts


@click.command()
@click.argument("directory", metavar="SET", type=PLACE)
@click.argument("other", metavar="[OTHER]", type=PLACE, required=False)
@click.option("--generation", type=click.IntRange(min=0), metavar="N", help="Generation of SET.")
@click.option("--where", default="", metavar="CONDITION", help="Condition of the first page.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; a free one if 0.")
@click.option("--no-browser", is_flag=True, help="Print the address only.")
def view(
    directory: Place,
    other: Place | None,
    generation: int | None,
    where: str,
    port: int,
    no_browser: bool,
) -> None:
    """Walk through a set in a browser: records, duplicates, quarantine, what the reader makes.

    Pages are served on this machine alone (127.0.0.1), to those who have the address with its
    token, until Ctrl-C. Nothing of the set is changed. With OTHER, or where SET has several
    generations, the page of differences compares two of them. From another machine, forward the
    port: ssh -L 8100:127.0.0.1:8100 HOST.

    \b
    Examples:
      shardmill view set
      shardmill view set --where "label == 'hat' and width > 200"
      shardmill view last-year this-year --port 8100 --no-browser
      shardmill view s3://bucket/set
    """
    from cli.console import say
    from viewer.pages import Pages
    from viewer.selection import RecordFilter
    from viewer.server import serve

    pages = Pages(directory, other, generation)
    if where:
        pages.first.select(RecordFilter(where=where))  # a wrong one is reported here

    def ready(url: str) -> None:
        say(f"viewing    {directory}{f' and {other}' if other is not None else ''}")
        say(f"address    {url}")
        say("end        Ctrl-C")
        if not no_browser and (sys.platform != "linux" or any(map(os.environ.get, _SCREENS))):
            # Some browsers return when they are closed.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    serve(pages, port, where, ready)
