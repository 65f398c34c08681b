"""A page of a command: one self-contained HTML file, in the style of 'shardmill report'."""

from __future__ import annotations

from collections.abc import Mapping

from beam_jobs.report.markup import render
from foundation import storage
from foundation.storage import Place
from shard_format import InputError


def write_page(template: str, values: Mapping[str, object], out: Place, flag: str) -> None:
    """Writes a page; an existing file is replaced.

    Args:
        template: Its name in beam_jobs/report/templates.
        values: What the template shows.
        out: The file.
        flag: The option that names it.

    Raises:
        InputError: The file cannot be written.
    """
    page = render(template, values)
    try:
        storage.write_bytes(out, page.encode())
    except OSError as error:
        raise InputError(
            f"The page cannot be written to {out}: {error.strerror}. Choose another file with "
            f"{flag}."
        ) from error
