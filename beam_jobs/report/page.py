"""The page around the sections, and the file it is written to."""

from __future__ import annotations

from pathlib import Path

from beam_jobs.report.markup import Html, element, style_sheet
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections import SECTIONS
from shard_format import InputError, naming, storage
from shard_format.own_checksums import report_names, report_text
from shard_format.storage import Place

# Dense, light and dark, from a phone to a wide screen.
_STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
# Nothing may be loaded and nothing may run, whatever a name in the corpus says.
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


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
    """The page as HTML."""
    title = f"{reported.manifest.name}: shard set report"
    shown = [section for section in SECTIONS if section.applies(reported)]
    links = [
        element("li", element("a", section.title, href=f"#{section.anchor}")) for section in shown
    ]
    sections = [
        element(
            "section",
            element("h2", section.title),
            section.content(reported),
            id=section.anchor,
        )
        for section in shown
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        *(
            element("meta", name=name, content=content)
            for name, content in report_names(reported.manifest.root_hash).items()
        ),
        element("title", title),
        style_sheet(_STYLE),
    )
    header = element(
        "header",
        element("h1", reported.manifest.name),
        element("nav", element("ul", links), aria_label="Sections"),
    )
    footer = element(
        "footer",
        element(
            "p", "Generated from the finished set by ", element("code", "shardmill report"), "."
        ),
    )
    body = element("body", header, element("main", sections), footer)
    return Html(f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n")
