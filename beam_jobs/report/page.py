"""The page of a set, and the file it is written to."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from beam_jobs.report.markup import render
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections import SECTIONS
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, naming
from shard_format.checksums import report_names, report_text
from shard_format.dataset_card import write_card


def write_report(directory: Place, out: Place | None = None, scratch: Path | None = None) -> Place:
    """Writes the report of a finished shard set; the same set and build.json give the same bytes.

    Into the set it writes README.md too, unless that was edited.

    Args:
        directory: The shard set.
        out: The file to write; `report.html` in the set when None. An existing one is replaced.
        scratch: See `storage.create`.

    Returns:
        The file.

    Raises:
        ShardSetError: There is no set in this directory.
        DamageError: A file of the set was changed after the build.
        InputError: The file cannot be written.
    """
    reported = ReportedSet(directory)
    if out is None:
        write_card(directory, reported.manifest, scratch)
    content = report_text(render_page(reported))
    final = out if out is not None else directory / naming.REPORT
    try:
        storage.write_bytes(final, content, scratch=scratch)
    except OSError as error:
        raise InputError(
            f"The report cannot be written to {final}: {error.strerror}. Choose another file with "
            "--out."
        ) from error
    return final


def render_page(reported: ReportedSet) -> Markup:
    """Renders the page with all sections that apply to the set."""
    shown = []
    for section in SECTIONS:
        content = section.content(reported)
        if content is None:
            continue
        if isinstance(content, str):
            body = render("note.html", {"text": content})
        else:
            body = render(f"{section.anchor}.html", {"reported": reported, **content})
        shown.append((section.anchor, section.title, body))
    manifest = reported.manifest
    names = report_names(manifest.root_hash)
    return render("report.html", {"manifest": manifest, "sections": shown, "names": names})
