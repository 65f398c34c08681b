"""The only module that turns text into HTML.

Whatever is not `Html` is text and is escaped; only this module creates `Html`. Adding a `str` to
`Html` gives a `str`, which is escaped: a mistake is visible on the page and does not run in it.
Elements, links and styles are checked too, because names of files and classes are hostile input.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable

from foundation.wording import shortened, visible


class Html(str):
    """Markup that goes into the page unescaped."""

    __slots__ = ()


_Rows = Iterable[Iterable[object]]


class DataUri(str):
    """An image that this package encoded, as a data: URI."""

    __slots__ = ()


_ELEMENTS = frozenset(
    "a bdi body br caption code details div dl dt dd figcaption figure footer h1 h2 h3 head header "
    "html img li main meta nav ol p path rect section small span strong style summary svg table "
    "tbody td th thead title tr ul".split()
)
_EMPTY_ELEMENTS = frozenset({"br", "img", "meta"})
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z-]*")
_STYLE = re.compile(r"(?:[a-z-]+:-?[0-9.]+(?:px|%|em)?;?)*")  # positions and sizes, nothing else
_SHOWN_CHARACTERS = 160  # longer names and messages would push the rest off the page
_JOINERS = "\u200c\u200d"  # they shape letters and emoji, and have no direction


def escape(value: object) -> Html:
    """The value as markup: text is escaped, invisible characters become visible, None is empty.

    Iterables are joined.
    """
    if isinstance(value, Html):
        return value
    if value is None:
        return Html()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return Html("".join(map(escape, value)))
    return Html(html.escape(visible(str(value)), quote=True))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """Returns an element of HTML or SVG.

    For example, `element("p", "a < b", class_="note")` is `<p class="note">a &lt; b</p>`.

    Args:
        name: The element; only those that the report uses are known.
        children: Its content, escaped unless it is Html.
        attributes: A trailing underscore is left out, others become hyphens; None and False leave
            an attribute out, True writes it without a value.

    Raises:
        ValueError: An element, attribute, link, image or style that no report may have.
    """
    if name not in _ELEMENTS:
        raise ValueError(f"Element {name!r} is not one of {sorted(_ELEMENTS)}.")
    written = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY_ELEMENTS:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{escape(children)}</{name}>")


def _attribute(name: str, value: object) -> str:
    if not _ATTRIBUTE.fullmatch(name) or name.lower().startswith("on"):
        raise ValueError(f"Attribute {name!r} is not allowed.")
    if name == "src" and not isinstance(value, DataUri):
        raise ValueError(f"Image source {value!r} is not a DataUri.")
    if name == "href" and not re.fullmatch(r"#[a-z0-9-]+", str(value)):
        raise ValueError(f"Link {value!r} does not lead to an anchor of the page.")
    if name == "style" and not _STYLE.fullmatch(str(value)):
        raise ValueError(f"Style {value!r} is more than positions and sizes.")
    return f" {name}" if value is True else f' {name}="{escape(value)}"'


def style_sheet(text: str) -> Html:
    """Returns a style element around a style sheet of this package."""
    if "<" in text:
        raise ValueError("The style sheet contains '<'.")
    return Html(f"<style>{text}</style>")


def foreign(text: str, limit: int = _SHOWN_CHARACTERS) -> Html:
    """Text from the corpus: shortened, in an element that isolates its writing direction."""
    return element("bdi", shortened(visible(text), limit))


def excerpt(text: str, limit: int, lines: int, *, more: bool = False) -> Html:
    """Returns the beginning of a document: a block with a paragraph for every line.

    Unlike a name, a document has line breaks and spaces, and may be written from right to left:
    every line determines its own direction and does not affect its neighbors.

    Args:
        text: The document, or its beginning.
        limit: Characters to show.
        lines: Lines to show; empty ones do not count.
        more: Whether the document is longer than the text.
    """
    parts = text[:limit].replace("\r\n", "\n").split("\n")
    full = [part for part in parts if part and not part.isspace()]
    cut = more or len(text) > limit or len(full) > lines
    paragraphs = [
        element("p", Html(html.escape(_readable(line), quote=True)), dir="auto")
        for line in full[:lines]
    ]
    if not paragraphs:
        paragraphs = [element("p", "only white space" if text else "no text", class_="none")]
    return element(
        "div", paragraphs, element("p", "...", class_="none") if cut else None, class_="excerpt"
    )


def _readable(line: str) -> str:
    """Like `visible`, but spaces of all kinds stay spaces, and joiners between letters stay."""
    shown = []
    for before, char, after in zip(" " + line, line, line[1:] + " ", strict=False):
        if char == "\t" or unicodedata.category(char) == "Zs":
            shown.append(" ")
        elif char in _JOINERS and all(c.isprintable() and not c.isascii() for c in (before, after)):
            shown.append(char)
        else:
            shown.append(visible(char))
    return "".join(shown)


def foreign_words(text: str) -> str:
    """Text from the corpus for an attribute, which cannot contain an element."""
    return shortened(visible(text), _SHOWN_CHARACTERS)


def table(head: Iterable[object], rows: _Rows, caption: object = None, kind: str = "") -> Html:
    """Returns a table whose first column names the rows and whose other columns hold numbers.

    It scrolls horizontally where the screen is too narrow for it.

    Args:
        head: The names of the columns.
        rows: Their cells.
        caption: A line above it, or None.
        kind: A class of the style sheet for an element around it; empty if there is none.
    """
    heads = [element("th", cell, scope="col") for cell in head]
    body = [
        element("tr", element("th", first, scope="row"), [element("td", cell) for cell in rest])
        for first, *rest in rows
    ]
    content = element(
        "table",
        element("caption", caption) if caption is not None else None,
        element("thead", element("tr", heads)),
        element("tbody", body),
    )
    shown = scrolling(content, "table")
    return element("div", shown, class_=kind) if kind else shown


def scrolling(content: object, name: str) -> Html:
    """Content that scrolls horizontally, also by keyboard, where the screen is too narrow."""
    region = {"tabindex": 0, "role": "region", "aria_label": name}
    return element("div", content, class_="scroll", **region)


def figure(content: object, caption: object, **attributes: object) -> Html:
    """Returns a figure with its caption above it."""
    return element("figure", element("figcaption", caption), content, **attributes)


def drawing(shapes: object, size: str, description: str, **attributes: object) -> Html:
    """Returns an SVG that stretches to the width of its parent.

    Args:
        shapes: Its content.
        size: "WIDTH HEIGHT" of its coordinates.
        description: For those who do not see it.
        attributes: Further ones, such as `class_`.
    """
    stretched = {"viewBox": f"0 0 {size}", "preserveAspectRatio": "none", **attributes}
    return element("svg", shapes, **stretched, role="img", aria_label=description)


def folded(title: str, head: Iterable[object], rows: _Rows) -> Html:
    """Returns a table of words that a click on its title opens."""
    return element("details", element("summary", title), table(head, rows), class_="words")


def note(text: object) -> Html:
    """Returns a paragraph in a lighter color."""
    return element("p", text, class_="note")
