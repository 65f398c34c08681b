"""The page around the sections, and the file it is written to."""

from __future__ import annotations

from pathlib import Path

from beam_jobs.report.markup import Html, element, style_sheet
from beam_jobs.report.sections import SECTIONS, Facts
from beam_jobs.report.style import STYLE
from shard_format import InputError, naming, storage

# Nothing may be loaded and nothing may run, whatever a name in the corpus says.
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


def write_report(directory: Path, out: Path | None = None) -> Path:
    """Writes the report of a finished shard set; the same set and build.json give the same bytes.

    Args:
        directory: The shard set.
        out: Where the page goes; `report.html` in the set when None. An older one is replaced.

    Returns:
        Where the page is.

    Raises:
        ShardSetError: There is no set in this directory.
        DamageError: A file of the set is not as it was written.
        InputError: The page cannot be written there.
    """
    text = render(Facts(directory))
    final = out if out is not None else directory / naming.REPORT
    try:
        storage.write_bytes(final, text.encode())
    except OSError as error:
        raise InputError(
            f"a report must go to a file that can be written, got '{error.strerror}' for {final}. "
            "Choose another place with --out."
        ) from error
    return final


def render(facts: Facts) -> Html:
    """The whole page."""
    name = f"{facts.manifest.name}: shard set report"
    shown = [section for section in SECTIONS if section.applies(facts)]
    links = [
        element("li", element("a", section.title, href=f"#{section.anchor}")) for section in shown
    ]
    sections = [
        element("section", element("h2", section.title), section.content(facts), id=section.anchor)
        for section in shown
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", name),
        style_sheet(STYLE),
    )
    header = element(
        "header",
        element("h1", facts.manifest.name),
        element("nav", element("ul", links), aria_label="Sections"),
    )
    footer = element(
        "footer",
        element("p", "Made from the finished set by ", element("code", "shardmill report"), "."),
    )
    body = element("body", header, element("main", sections), footer)
    return Html(f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n")
