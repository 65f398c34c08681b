"""What a section of the report is, and how sections show records: images in tiles, or texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from beam_jobs.report.markup import DataUri, Html, element, excerpt, foreign_words
from beam_jobs.report.previews import Excerpt, Preview
from beam_jobs.report.sampling import ReportedSet


class Section(NamedTuple):
    """One part of the page.

    Attributes:
        anchor: The target of links to it.
        title: Its heading.
        content: Makes everything below the heading. A set that has nothing to show there gets a
            sentence that says so: nobody should have to guess whether something went wrong.
        applies: Whether the page of this set has the section: one that has no meaning for a kind
            of record is left out.
    """

    anchor: str
    title: str
    content: Callable[[ReportedSet], Html]
    applies: Callable[[ReportedSet], bool] = lambda reported: True


def image(preview: Preview | None, name: str) -> Html:
    """Returns an image, or a note that there is none, in the square of a thumbnail.

    Args:
        preview: The image.
        name: What it shows, for those who do not see it.
    """
    shown = element("span", "no preview", class_="none")
    if isinstance(preview, DataUri):
        shown = element("img", src=preview, alt=foreign_words(name), title=foreign_words(name))
    return element("div", shown, class_="frame")


def text(preview: Preview | None, characters: int, lines: int) -> Html:
    """Returns the beginning of a document, or a note that there is none.

    Args:
        preview: The document.
        characters: How many to show at most.
        lines: How many to show at most.
    """
    if not isinstance(preview, Excerpt):
        return element("p", "no excerpt", class_="none")
    return excerpt(preview.text, characters, lines, more=preview.more)


def tile(content: object, caption: object, kind: str = "") -> Html:
    """Returns an image with a few words below it."""
    kind = f"tile {kind}".strip()
    return element("figure", content, element("figcaption", caption), class_=kind)


def tiles(shown: Iterable[Html]) -> Html:
    """Tiles in rows, as many in each as the width allows."""
    return element("div", shown, class_="tiles")
