"""The only place where text becomes HTML.

What is not `Html` is text, and is escaped; `Html` is made here alone. Adding a `str` to `Html`
gives a `str` again, which will be escaped: a mistake shows on the page, it does not run in it.
Elements, links and styles are checked as well, for names of files and classes are hostile input.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable

from shard_format.wording import shortened, visible


class Html(str):
    """Markup that may stand in a page as it is."""

    __slots__ = ()


class DataUri(str):
    """A picture that we encoded ourselves, as a data: URI."""

    __slots__ = ()


_ELEMENTS = frozenset(
    "a bdi body br caption code details div dl dt dd figcaption figure footer h1 h2 h3 head header "
    "html img li main meta nav ol p path rect section small span strong style summary svg table "
    "tbody td th thead title tr ul".split()
)
_EMPTY_ELEMENTS = frozenset({"br", "img", "meta"})
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z-]*")
_STYLE = re.compile(r"(?:[a-z-]+:-?[0-9.]+(?:px|%|em)?;?)*")  # places and sizes, nothing else
_SHOWN_CHARACTERS = 160  # longer names and messages would push the rest off the page
_JOINERS = "\u200c\u200d"  # they shape letters and pictographs, and have no direction


def escape(value: object) -> Html:
    """The value as markup: text is escaped, what cannot be seen is made visible, None is nothing.

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
    """An element of HTML or SVG.

    For example, `element("p", "a < b", class_="note")` is `<p class="note">a &lt; b</p>`.

    Args:
        name: The element; only those that the report uses are known.
        children: Its content, escaped unless it is Html.
        attributes: A trailing underscore is left out, others become hyphens; None and False leave
            an attribute out, True writes it without a value.

    Raises:
        ValueError: An element, attribute, link, picture or style that no report may have.
    """
    if name not in _ELEMENTS:
        raise ValueError(f"an element must be one of {sorted(_ELEMENTS)}, got {name!r}")
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
        raise ValueError(f"an attribute must be a plain one, got {name!r}")
    if name == "src" and not isinstance(value, DataUri):
        raise ValueError(f"a picture must be one we encoded, got {value!r}")
    if name == "href" and not re.fullmatch(r"#[a-z0-9-]+", str(value)):
        raise ValueError(f"a link must lead to a place in the page, got {value!r}")
    if name == "style" and not _STYLE.fullmatch(str(value)):
        raise ValueError(f"a style must be made of numbers, got {value!r}")
    return f" {name}" if value is True else f' {name}="{escape(value)}"'


def style_sheet(text: str) -> Html:
    """A style element around a text of ours."""
    if "<" in text:
        raise ValueError("a style sheet must not hold markup, got one with '<'")
    return Html(f"<style>{text}</style>")


def foreign(text: str, limit: int = _SHOWN_CHARACTERS) -> Html:
    """Text from the corpus: shortened, and in an element that keeps its direction to itself."""
    return element("bdi", shortened(visible(text), limit))


def excerpt(text: str, limit: int, lines: int, *, more: bool = False) -> Html:
    """The beginning of a document: a block with a paragraph for every line.

    Unlike a name, a document has lines and blanks of its own, and may be written from right to
    left: every line finds its own direction, and gives none to its neighbours.

    Args:
        text: The document, or its beginning.
        limit: Characters to show.
        lines: Lines to show; empty ones do not count.
        more: Whether the document is longer than the text.
    """
    parts = text[:limit].replace("\r\n", "\n").split("\n")
    full = [part for part in parts if part and not part.isspace()]
    cut = more or len(text) > limit or len(full) > lines
    made = [
        element("p", Html(html.escape(_readable(line), quote=True)), dir="auto")
        for line in full[:lines]
    ]
    if not made:
        made = [element("p", "nothing but white space" if text else "no text", class_="none")]
    return element(
        "div", made, element("p", "...", class_="none") if cut else None, class_="excerpt"
    )


def _readable(line: str) -> str:
    """What `visible` gives, but with blanks of all kinds as blanks, and joiners where they join."""
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
    """Text from the corpus for an attribute, which can hold no element."""
    return shortened(visible(text), _SHOWN_CHARACTERS)


def table(head: Iterable[object], rows: Iterable[Iterable[object]], caption: object = None) -> Html:
    """A table whose first column names the rows and whose other columns hold numbers.

    It scrolls by itself where the screen is too narrow for it.
    """
    heads = [element("th", cell, scope="col") for cell in head]
    body = []
    for first, *rest in rows:
        cells = [element("th", first, scope="row"), *(element("td", cell) for cell in rest)]
        body.append(element("tr", cells))
    content = element(
        "table",
        element("caption", caption) if caption is not None else None,
        element("thead", element("tr", heads)),
        element("tbody", body),
    )
    return element("div", content, class_="scroll", tabindex=0, role="region", aria_label="table")


def figure(content: object, caption: object, **attributes: object) -> Html:
    """A figure with its caption above it."""
    return element("figure", element("figcaption", caption), content, **attributes)


def note(text: object) -> Html:
    """A paragraph in a quieter tone."""
    return element("p", text, class_="note")
