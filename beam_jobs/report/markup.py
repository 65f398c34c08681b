"""Pages from the templates of this package, in which text of a corpus stays text.

Names of files and classes are hostile input. A value that a template shows is escaped unless it is
`Markup`, which only this module and macros of the templates create, and its invisible characters
become visible.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from beam_jobs.corpus.names import shown_name
from foundation.wording import counted, format_bytes, shortened, visible

_SHOWN_CHARACTERS = 160  # longer names and messages would push the rest off the page
_JOINERS = "\u200c\u200d"  # they shape letters and emoji, and have no direction
_BETWEEN_TAGS = re.compile(r">\s*\n\s*<")


def render(template: str, values: Mapping[str, object]) -> Markup:
    """Renders a template; line breaks between its tags are not part of the page."""
    text = _ENVIRONMENT.get_template(template).render(values)
    return Markup(_BETWEEN_TAGS.sub("><", text))


def foreign(text: object, limit: int = _SHOWN_CHARACTERS) -> Markup:
    """Text from the corpus: shortened, in an element that isolates its writing direction."""
    return Markup("<bdi>{}</bdi>").format(foreign_words(text, limit))


def foreign_words(text: object, limit: int = _SHOWN_CHARACTERS) -> str:
    """Text from the corpus for an attribute, which cannot contain an element."""
    return shortened(visible(str(text)), limit)


def kept_value(value: bytes | int | float, limit: int) -> Markup | str:
    """A value of a kept column: text from the corpus in at most `limit` characters, or a number."""
    if isinstance(value, bytes):
        # A code point takes 4 bytes at most; one that was cut is left out.
        return foreign(value[: 4 * limit + 4].decode("utf-8", "ignore"), limit)
    return plain_number(value)


def plain_number(value: float) -> str:
    """A number without a separator of thousands: it is a year or an id as often as a count."""
    return f"{value}" if isinstance(value, int) else f"{value:.6g}"


class ExcerptLines(NamedTuple):
    """The first lines of a document, and whether there are more."""

    shown: list[Markup]
    cut: bool


def first_lines(text: str, limit: int, lines: int) -> ExcerptLines:
    """Splits the beginning of a document into lines, without empty ones.

    Unlike a name, a document has line breaks and spaces, and may be written from right to left.

    Args:
        text: The document, or its beginning.
        limit: Characters to show.
        lines: ExcerptLines to show.
    """
    parts = text[:limit].replace("\r\n", "\n").split("\n")
    full = [part for part in parts if part and not part.isspace()]
    shown = [escape(readable(line)) for line in full[:lines]]
    return ExcerptLines(shown, len(text) > limit or len(full) > lines)


def readable(line: str) -> str:
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


def _finalize(value: object) -> object:
    return value if isinstance(value, Markup) else visible(str(value))


def environment(
    *folders: Path, filters: Mapping[str, Callable[..., object]] | None = None
) -> Environment:
    """The templates of this package behind those of some folders, which may use its parts.

    Args:
        folders: Where templates are looked for first.
        filters: Further ones, by name.
    """
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "amount": "{:,}".format,
        "counted": counted,
        "first_lines": first_lines,
        "foreign": foreign,
        "foreign_words": foreign_words,
        "kept_value": kept_value,
        "shown_name": shown_name,
        "size": format_bytes,
        **(filters or {}),
    }
    return made


TEMPLATES = Path(__file__).with_name("templates")
_ENVIRONMENT = environment()
