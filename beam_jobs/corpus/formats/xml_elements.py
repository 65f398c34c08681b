"""The elements of an XML file that are records, found as the file is read.

One record is in memory, of at most as many bytes as a record may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.parsers import expat

import numpy as np

from beam_jobs.columns import IntArray
from beam_jobs.corpus.formats.xml_parser import (
    BLOCK_BYTES,
    TOKEN_BYTES,
    Entities,
    Utf8Blocks,
    malformed,
    new_parser,
)
from beam_jobs.corpus.formats.xml_text import ElementText, Fields, TextRules, local_name
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import TOO_LARGE
from beam_jobs.corpus.streams import ByteStream

_MAX_DEPTH = 4096
_MAX_NAMES = 100_000  # distinct names of elements and attributes, which expat never forgets
_SHOWN_NAMES = 10  # of elements, where none is a record


class XmlElement(NamedTuple):
    """An element that is a record.

    Attributes:
        offset: Its first byte.
        size: Its bytes.
        data: Its bytes, in UTF-8; none if they are more than the limit.
        text: Text of itself and all elements in it.
        fields: Values of its children and attributes, those that the rules name.
        rejection: Why it cannot be used, or None.
    """

    offset: int
    size: int
    data: bytes
    text: str
    fields: Fields
    rejection: Rejection | None


class XmlDamage(Exception):
    """Nothing after some byte of a file can be read.

    Args:
        offset: Where the record begins that was read then, or the byte.
        rejection: Why; with the bytes from there that were read, if a record was.
    """

    def __init__(self, offset: int, rejection: Rejection) -> None:
        super().__init__(offset, rejection)
        self.offset = offset
        self.rejection = rejection


class ElementReader:
    """The elements of one name in a file, outermost only.

    Args:
        file: At its beginning.
        encoding: Encoding of the file.
        name: With or without a prefix; "" for the first element, whatever its name.
        limit: Most bytes of a record.
        rules: How text is made of elements.
        lines_before: Lines that were put in front of the file, which places do not count.
    """

    def __init__(
        self,
        file: ByteStream,
        encoding: str,
        name: str,
        limit: int,
        rules: TextRules,
        lines_before: int = 0,
    ) -> None:
        self._file = file
        self._name = name
        self._limit = limit
        self._rules = rules
        self._lines_before = lines_before
        self._blocks = Utf8Blocks(file, encoding)
        self._parser = new_parser(Entities())
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.SkippedEntityHandler = self._skipped_entity
        self._parser.ExternalEntityRefHandler = self._external_entity
        self._window = bytearray()  # from the record that is open, or from the token, on
        self._base = 0  # of the window
        self._bad: IntArray = np.zeros(0, np.int64)  # bytes of the window that are not allowed
        self._depth = 0
        self._opened = -1  # the depth of the record that is open
        self._offset = 0  # of that record
        self._text: ElementText | None = None  # none if the record is too large
        self._rejection: Rejection | None = None
        self._found: list[XmlElement] = []
        self._others: dict[str, None] = {}

    def __iter__(self) -> Iterator[XmlElement]:
        """Every element in order.

        Raises:
            XmlDamage: What follows cannot be read.
        """
        more = True
        while more:
            damage: Rejection | None = None
            try:
                more = self._next_block()
            except Rejection as rejection:
                damage = rejection
            except expat.ExpatError as error:
                damage = malformed(error, self._lines_before)
            yield from self._found
            self._found.clear()
            if damage is not None:
                raise self._damaged(damage)

    @property
    def others(self) -> list[str]:
        """Names of the first elements that are not records, nor inside of one."""
        return list(self._others)

    def _next_block(self) -> bool:
        """Whether there was one."""
        pending = self._base + len(self._window) - max(self._position(), self._base)
        # As much again as was read of a tag: expat begins each time at its beginning.
        raw, clean = self._blocks.next(max(BLOCK_BYTES, min(pending, TOKEN_BYTES)))
        if not raw:
            self._file.check_whole()
        if raw != clean:
            same = np.frombuffer(raw, np.uint8) == np.frombuffer(clean, np.uint8)
            replaced = np.flatnonzero(~same) + self._base + len(self._window)
            self._bad = np.concatenate([self._bad, replaced])
        self._window += raw
        self._parser.Parse(clean, not raw)
        end = self._base + len(self._window)
        if len(self._parser.intern) > _MAX_NAMES:
            raise Rejection("unsafe-xml", f"it has more than {_MAX_NAMES} names of elements")
        if end - self._position() > TOKEN_BYTES:
            raise Rejection("bad-xml", f"a tag or comment has more than {TOKEN_BYTES} bytes")
        if self._opened >= 0 and self._position() - self._offset > self._limit:
            self._drop_text()
        keep = self._position() if self._text is None else self._offset
        if keep > self._base:
            del self._window[: keep - self._base]
            self._base = keep
            self._bad = self._bad[self._bad >= keep]
        if self._text is not None:
            self._bad = self._bad[:1]  # of a record one is enough
        return bool(raw)

    def _position(self) -> int:
        """Where the token begins that is not complete, without what was dropped."""
        return max(0, self._parser.CurrentByteIndex)

    def _start(self, name: str, attributes: Sequence[str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Rejection("xml-too-deep", f"elements are nested more than {_MAX_DEPTH} deep")
        if self._opened < 0:
            if not self._name or self._name in (name, local_name(name)):
                self._opened, self._offset = self._depth, self._position()
                self._rejection = None
                self._text = ElementText(self._rules, attributes)
                self._parser.CharacterDataHandler = self._characters
            elif len(self._others) < _SHOWN_NAMES:
                self._others[name] = None
        elif self._text is not None:
            self._text.start(name, attributes)

    def _characters(self, data: str) -> None:
        if self._text is not None:
            self._text.add(data)
            if self._text.size > self._limit:  # entities may expand to much more than is read
                self._drop_text()

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._depth >= self._opened or self._opened < 0:
            if self._text is not None:
                self._text.end()
            return
        at = self._position() - self._base
        if self._window.startswith(b"</" + name.encode(), at):
            at = self._window.index(b">", at) + 1
        start, end = self._offset, self._base + at
        text = self._text
        if text is None or end - start > self._limit:
            detail = f"its text has more than {self._limit} characters"
            why = self._rejection or Rejection(TOO_LARGE, detail)
            element = XmlElement(start, end - start, b"", "", {}, why)
        else:
            data = bytes(self._window[start - self._base : at])
            problem = self._rejection or self._not_allowed(start, end)
            element = XmlElement(start, end - start, data, text.whole(), text.fields, problem)
        self._found.append(element._replace(offset=start + self._blocks.dropped))
        self._opened, self._text = -1, None
        self._parser.CharacterDataHandler = None

    def _not_allowed(self, start: int, end: int) -> Rejection | None:
        """Why the bytes of a record cannot be used; None if they can."""
        inside = self._bad[(self._bad >= start) & (self._bad < end)]
        if not len(inside):
            return None
        at = int(inside[0])
        byte = self._window[at - self._base]
        place = f"byte {byte:#04x} at offset {at + self._blocks.dropped}"
        if byte < 0x80:
            return Rejection("bad-xml", f"{place} is a control character, which XML does not allow")
        return Rejection("bad-encoding", f"{place} is not valid utf-8")

    def _drop_text(self) -> None:
        """Keeps nothing of the record that is open, which is too large."""
        self._text = None
        self._parser.CharacterDataHandler = None

    def _skipped_entity(self, name: str, is_parameter: int) -> None:
        if self._text is not None and not is_parameter:
            self._text.add(Entities.text_of_unknown(name))

    def _external_entity(self, context: str | None, *_: object) -> int:
        detail = f"it refers to the external entity {(context or '')[:80]!r}, which is not read"
        self._rejection = self._rejection or Rejection("unsafe-xml", detail)
        return 1

    def _damaged(self, rejection: Rejection) -> XmlDamage:
        at, data = self._position(), None
        if self._opened >= 0:
            at = self._offset
            if self._text is not None and len(self._window) <= self._limit:
                data = bytes(self._window[at - self._base :])
        return XmlDamage(at + self._blocks.dropped, rejection.with_data(data))
