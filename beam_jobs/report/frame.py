"""The page around sections: its head, its style and its links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from beam_jobs.report.markup import Html, element, style_sheet

# Dense, light and dark, from a phone to a wide screen.
_STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
# Nothing may be loaded and nothing may run, whatever a name in the corpus says.
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


def framed(
    title: str,
    heading: object,
    sections: Sequence[tuple[str, str, Html]],
    footer: object,
    names: Mapping[str, str],
) -> Html:
    """Returns a self-contained page as HTML.

    Args:
        title: Of the page.
        heading: The line above everything.
        sections: (target of links, heading, content) of each section.
        footer: The line below everything.
        names: Further meta elements, by name.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        *(element("meta", name=name, content=content) for name, content in names.items()),
        element("title", title),
        style_sheet(_STYLE),
    )
    links = [element("li", element("a", text, href=f"#{anchor}")) for anchor, text, _ in sections]
    header = element(
        "header",
        element("h1", heading),
        element("nav", element("ul", links), aria_label="Sections"),
    )
    shown = [
        element("section", element("h2", text), content, id=anchor)
        for anchor, text, content in sections
    ]
    body = element("body", header, element("main", shown), element("footer", element("p", footer)))
    return Html(f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n")
