"""The page of a set, and the file it is written to."""

from __future__ import annotations

from pathlib import Path

from beam_jobs.report.frame import framed
from beam_jobs.report.markup import Html, element
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections import SECTIONS
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, naming
from shard_format.checksums import report_names, report_text


def write_report(directory: Place, out: Place | None = None, scratch: Path | None = None) -> Place:
    """Writes the report of a finished shard set; the same set and build.json give the same bytes.

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
    content = report_text(render(reported))
    final = out if out is not None else directory / naming.REPORT
    try:
        storage.write_bytes(final, content, scratch=scratch)
    except OSError as error:
        raise InputError(
            f"The report cannot be written to {final}: {error.strerror}. Choose another file with "
            "--out."
        ) from error
    return final


def render(reported: ReportedSet) -> Html:
    """Returns the page as HTML."""
    title = f"{reported.manifest.name}: shard set report"
    shown = [section for section in SECTIONS if section.applies(reported)]
    return framed(
        title,
        reported.manifest.name,
        [(section.anchor, section.title, section.content(reported)) for section in shown],
        ("Generated from the finished set by ", element("code", "shardmill report"), "."),
        report_names(reported.manifest.root_hash),
    )
