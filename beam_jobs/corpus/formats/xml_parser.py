"""The parser of XML, and what it does not allow that expat would.

expat of the standard library reads blocks as they come, says at which byte an element begins, and
opens neither files nor connections. Entities that expand without bound are rejected here.
"""

from __future__ import annotations

import html.entities
import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.parsers import expat

from beam_jobs.corpus.formats.xml_input import Utf8Blocks
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.streams import ByteStream

BLOCK_BYTES = 1 << 18  # 256 KiB a read
TOKEN_BYTES = 4 << 20  # 4 MiB of one tag or comment, which expat holds in memory
_PROLOG_BYTES = 1 << 20  # 1 MiB before the first element, such as declarations of entities
# With tags of at most TOKEN_BYTES these bound what entities in an attribute may expand to.
_ENTITY_CHARS = 4096
_ENTITY_DEPTH = 16
_REFERENCE = re.compile(r"&([^;&#]+);")
_PREDEFINED = frozenset(("amp", "lt", "gt", "quot", "apos"))


class Root(NamedTuple):
    """The first element of a file, and what is before it.

    Attributes:
        name: With its prefix.
        attributes: Names and values in turns.
        prolog: The bytes before it, in UTF-8: with these, one record can be parsed alone.
    """

    name: str
    attributes: Sequence[str]
    prolog: bytes


class Entities:
    """What entities may be declared, and what a reference to an unknown one means.

    An entity may refer to entities that are declared before it, so none contains itself. None may
    contain an element: the bytes of a record would be elsewhere.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}  # characters and depth, expanded
        self._awaited: set[str] = set()

    def declare(self, name: str, is_parameter: int, value: str | None, *_: object) -> None:
        """Checks a declaration, for expat.

        Raises:
            Rejection: It is of an entity that is not allowed.
        """
        if is_parameter or value is None:
            return  # parameter entities are not expanded, and external ones are not read
        size, depth = len(value), 1
        if size <= _ENTITY_CHARS:
            for other in _REFERENCE.findall(value):
                if other in self._known:
                    other_size, other_depth = self._known[other]
                    size, depth = size + other_size, max(depth, other_depth + 1)
                elif other not in _PREDEFINED:
                    self._awaited.add(other)
        why = ""
        if size > _ENTITY_CHARS or depth > _ENTITY_DEPTH:
            why = f"expands to more than {_ENTITY_CHARS} characters or {_ENTITY_DEPTH} levels"
        elif "<" in value:
            why = "contains markup"
        elif name in self._awaited:
            why = "is declared after one that refers to it"
        if why:
            raise Rejection("unsafe-xml", f"the entity {name[:80]!r} {why}")
        self._known.setdefault(name, (size, depth))

    @staticmethod
    def text_of_unknown(name: str) -> str:
        """As HTML defines it, or as written: declarations in other files are not read."""
        return html.entities.html5.get(f"{name};", f"&{name};")


def root_of(file: ByteStream, encoding: str) -> Root:
    """The first element of a file.

    Raises:
        Rejection: There is none.
    """
    found: list[Root] = []
    data = b""

    def start(name: str, attributes: Sequence[str]) -> None:
        if not found:
            found.append(Root(name, attributes, data[: parser.CurrentByteIndex]))

    parser = new_parser(Entities())
    parser.StartElementHandler = start
    blocks = Utf8Blocks(file, encoding)
    while not found:
        raw, clean = blocks.next(BLOCK_BYTES)
        if not raw:
            file.check_whole()
        data += raw
        try:
            parser.Parse(clean, not raw)
        except expat.ExpatError as error:
            if not found:
                raise malformed(error) from None
        if not found and len(data) > _PROLOG_BYTES:
            raise Rejection("bad-xml", f"no element begins in its first {_PROLOG_BYTES} bytes")
    return found[0]


def new_parser(entities: Entities) -> expat.XMLParserType:
    """A parser of UTF-8, whatever the file declares."""
    parser = expat.ParserCreate("utf-8", None, {})
    parser.ordered_attributes = True
    parser.buffer_text = True
    # References to undeclared entities are reported, as if there was a declaration elsewhere.
    parser.UseForeignDTD(True)
    parser.EntityDeclHandler = entities.declare
    return parser


def malformed(error: expat.ExpatError, lines_before: int = 0) -> Rejection:
    """What expat found, and where; lines that were put in front of a file do not count."""
    what = expat.errors.messages.get(error.code, "not well-formed")
    place = f"line {error.lineno - lines_before}, column {error.offset + 1}"
    return Rejection("bad-xml", f"{what} in {place}")
