"""The text of an XML element: of its own and of the elements in it, with line breaks between.

Which elements are blocks is known of few vocabularies. An element that has text of its own next to
its children (mixed content) has them inline; the children of any other are on lines of their own.
"""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Fields = dict[str, str | list[str]]

# Characters that no XML contains: a line break around an element, and one that was taken back.
_BREAK, _NO_BREAK = "\x02", "\x03"
_INDENT = re.compile(r"\n[ \t]+")
_LINE_END, _SPACES = re.compile(r"\n\s*"), re.compile(r"  +")
# Blocks wherever they are, by their names in HTML, TEI, JATS and DocBook.
_BLOCKS = frozenset(
    "p para div sec section head l lg lb br li item list ul ol dl dt dd tr row table note sp stage "
    "speaker blockquote figure h1 h2 h3 h4 h5 h6".split()
)


class TextRules(NamedTuple):
    """How text is made of an element.

    Attributes:
        columns: Names of fields, each a path of elements below the record, "revision/text"; the
            last part may be an attribute, "@lang".
        all_children: Whether every child and attribute of the record is a field.
        joins_lines: Whether line breaks inside of text are spaces, as where lines are wrapped.
        left_out: Elements whose text is not part of the whole, only of fields.
    """

    columns: tuple[str, ...] = ()
    all_children: bool = False
    joins_lines: bool = False
    left_out: frozenset[str] = frozenset()


class _Open:
    """An element that is open: what of it is needed at its end."""

    __slots__ = ("breaks", "fields", "is_mixed", "keeps_space", "name", "start")

    def __init__(self, name: str, start: int, keeps_space: bool, fields: tuple[str, ...]) -> None:
        self.name = name
        self.start = start  # of its text in all text
        self.keeps_space = keeps_space
        self.fields = fields
        self.is_mixed = False
        self.breaks: array[int] | None = None  # around its children, while it is not mixed


class ElementText:
    """Collects the text and the fields of a record from the events of a parser.

    Args:
        rules: How text is made of it.
        attributes: Attributes of the record: names and values in turns.

    Attributes:
        fields: Values by name; a list if there are several.
        size: Characters that were added.
    """

    def __init__(self, rules: TextRules, attributes: Sequence[str]) -> None:
        self._rules = rules
        self._paths = [(column, tuple(column.split("/"))) for column in rules.columns]
        self._depth = max((len(path) for _, path in self._paths), default=1)
        self._is_exact: dict[str, bool] = {}
        # In one buffer: a record may have ten million elements, which are too many for a list.
        self._text = io.StringIO()
        self._length = 0
        self._broken_at = 0  # after the last break
        self._run: list[str] = []  # the text since the last tag
        self._open = [_Open("", 0, _keeps_space(attributes, False), ())]
        self.fields: Fields = {}
        self.size = 0
        self._add_attributes(attributes)

    def add(self, data: str) -> None:
        """Text."""
        self.size += len(data)
        self._run.append(data)

    def start(self, name: str, attributes: Sequence[str]) -> None:
        """An element begins."""
        self._flush()
        above = self._open[-1]
        self._break(above, name)
        one = _Open(name, self._length, _keeps_space(attributes, above.keeps_space), ())
        self._open.append(one)
        depth = len(self._open) - 1
        if depth <= self._depth:
            one.fields = tuple(
                column for column, path in self._paths if len(path) == depth and self._matches(path)
            )
            if self._rules.all_children and depth == 1 and not one.fields:
                one.fields = (local_name(name),)
            self._add_attributes(attributes)

    def end(self) -> None:
        """The element that was begun last ends."""
        self._flush()
        one = self._open[-1]
        for column in one.fields:
            is_exact = one.name == column.rpartition("/")[2]
            self._set(column, self._tidy(one.start), is_exact)
        if local_name(one.name) in self._rules.left_out:
            self._text.seek(one.start)
            self._text.truncate()
            self._length = one.start
        self._open.pop()
        self._break(self._open[-1], one.name)

    def whole(self) -> str:
        """The text of all of it, at its end."""
        self._flush()
        return self._tidy(0)

    def _break(self, above: _Open, name: str) -> None:
        """A line break between children of an element, unless they are inline."""
        is_block = local_name(name) in _BLOCKS
        if above.is_mixed and not is_block:
            return
        if self._broken_at == self._length:
            return
        if not is_block:
            if above.breaks is None:
                above.breaks = array("q")
            above.breaks.append(self._length)
        self._write(_BREAK)
        self._broken_at = self._length

    def _write(self, text: str) -> None:
        self._text.write(text)
        self._length += len(text)

    def _flush(self) -> None:
        """Adds the text since the last tag.

        As a whole, since the parser gives it in pieces that depend on where the file was cut.
        """
        if not self._run:
            return
        text = "".join(self._run)
        self._run.clear()
        one = self._open[-1]
        if not one.is_mixed and not text.isspace():
            one.is_mixed = True
            for at in one.breaks or ():
                self._text.seek(at)
                self._text.write(_NO_BREAK)
            self._text.seek(0, io.SEEK_END)
            one.breaks = None
        self._write(text if one.keeps_space else self._without_indents(text))

    def _without_indents(self, text: str) -> str:
        """The text without white space at the beginning of its lines, or as one line."""
        if self._rules.joins_lines:
            return _SPACES.sub(" ", _LINE_END.sub(" ", text))
        return _INDENT.sub("\n", text)

    def _tidy(self, start: int) -> str:
        """All text from there on: one line for every block, without white space around it."""
        self._text.seek(start)
        text = self._text.read().replace(_NO_BREAK, "")
        tidy, begin = io.StringIO(), 0
        while begin <= len(text):
            end = text.find(_BREAK, begin)
            end = len(text) if end < 0 else end
            if line := text[begin:end].strip():
                tidy.write(f"\n{line}" if tidy.tell() else line)
            begin = end + 1
        return tidy.getvalue()

    def _matches(self, path: Sequence[str]) -> bool:
        """Whether the open elements below the record have these names."""
        names = [one.name for one in self._open[1:]]
        return len(names) == len(path) and all(map(_is_named, names, path))

    def _add_attributes(self, attributes: Sequence[str]) -> None:
        """The attributes of the element that was begun last, if they are fields."""
        if not attributes:
            return
        depth = len(self._open)
        for name, value in zip(attributes[::2], attributes[1::2], strict=True):
            for column, path in self._paths:
                if len(path) == depth and path[-1][:1] == "@" and _is_named(name, path[-1][1:]):
                    if self._matches(path[:-1]):
                        self._set(column, value, name == path[-1][1:])
            column = f"@{local_name(name)}"
            if self._rules.all_children and depth == 1 and column not in self.fields:
                self._set(column, value, True)

    def _set(self, column: str, value: str, is_exact: bool) -> None:
        """Adds a value; <title> takes precedence over <media:title> for "title"."""
        before = self.fields.get(column)
        if before is None or (is_exact and not self._is_exact[column]):
            self.fields[column] = value
            self._is_exact[column] = is_exact
        elif is_exact == self._is_exact[column]:
            if isinstance(before, str):
                self.fields[column] = [before, value]
            else:
                before.append(value)


def local_name(name: str) -> str:
    """A name without its prefix."""
    return name.rpartition(":")[2]


def first_of(fields: Mapping[str, str | list[str]], column: str) -> str:
    """The first value of a field; "" if it has none."""
    value = fields.get(column, "")
    return value if isinstance(value, str) else value[0]


def _is_named(name: str, wanted: str) -> bool:
    return wanted in (name, local_name(name))


def _keeps_space(attributes: Sequence[str], above: bool) -> bool:
    for at in range(0, len(attributes), 2):
        if attributes[at] == "xml:space":
            return attributes[at + 1] == "preserve"
    return above
