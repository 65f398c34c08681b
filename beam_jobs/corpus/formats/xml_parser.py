"""The parser of XML, its input in UTF-8, and what it does not allow that expat would.

expat of the standard library reads blocks as they come, says at which byte an element begins, and
opens neither files nor connections. Entities that expand without bound are rejected here.
"""

from __future__ import annotations

import codecs
import html.entities
import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.parsers import expat

from beam_jobs.corpus.encoding_declarations import codec_of, declared_in_text, label_in_xml
from beam_jobs.corpus.encodings import detected, marked, normal_name, wide_by_zeros
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.streams import ByteStream
from beam_jobs.options.encodings import AUTO

_INSPECTED_BYTES = 1 << 20  # 1 MiB of a file decides its encoding, unless it declares one
_BEGINS = b"<?xml"
# What XML 1.0 does not allow becomes a question mark, so that the rest of the file can be read.
_NOT_ALLOWED = bytes(range(9)) + b"\x0b\x0c" + bytes(range(14, 32))
_ALLOWED = bytes.maketrans(_NOT_ALLOWED, b"?" * len(_NOT_ALLOWED))
_SAME_SIZE = "shardmill.question-marks"


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    """As many question marks as there are bytes, for an error of decoding."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?" * (error.end - error.start), error.end


codecs.register_error(_SAME_SIZE, _question_marks)


def encoding_of_xml(file: ByteStream, option: str) -> str:
    """The encoding of a file: as it declares, or else by --encoding.

    Raises:
        Rejection: It declares one that is unknown, or detection is not sure.
    """
    head = file.head(_INSPECTED_BYTES)
    if wide := marked(head[:4]) or (wide_by_zeros(head[:1024]) if b"\0" in head[:4] else ""):
        return wide
    label = label_in_xml(head)
    if not label and option != AUTO:
        return normal_name(option)
    if label and not codec_of(label):
        raise Rejection("bad-encoding", f"it declares the unknown encoding {label!r}")
    return detected(head, declared=declared_in_text(head))


class Utf8Blocks:
    """A file in UTF-8, block by block, with what XML does not allow replaced.

    Attributes:
        dropped: Bytes of white space in front of the XML declaration, which must be the first.
    """

    def __init__(self, file: ByteStream, encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._read = 0
        self._rest = b""
        self.dropped = 0

    def next(self, size: int) -> tuple[bytes, bytes]:
        """(bytes, the same with question marks for what is not allowed); none at the end.

        Raises:
            Rejection: They are not valid in the encoding, which is not UTF-8.
        """
        while True:
            raw = self._file.read(size)
            data = self._utf8(raw) if self._encoding == "utf-8" else self._converted(raw)
            if not self._read:
                whole = len(data)
                begun = data.removeprefix(codecs.BOM_UTF8).lstrip()
                data = begun if begun.startswith(_BEGINS) else data
                self.dropped = whole - len(data)
            self._read += len(raw)
            if data or not raw:
                clean = data.translate(_ALLOWED)
                try:
                    codecs.utf_8_decode(clean, "strict", True)
                except UnicodeDecodeError:
                    clean = clean.decode("utf-8", _SAME_SIZE).encode()
                return data, clean

    def _utf8(self, raw: bytes) -> bytes:
        """The bytes without a character that the next block completes."""
        data = self._rest + raw
        _, size = codecs.utf_8_decode(data, _SAME_SIZE, not raw)
        self._rest = data[size:]
        return data[:size]

    def _converted(self, raw: bytes) -> bytes:
        try:
            return self._decoder.decode(raw, not raw).encode()
        except UnicodeDecodeError as error:
            at = self._read + len(raw) - (len(error.object) - error.start)
            detail = f"byte {error.object[error.start]:#04x} at offset {at} is not valid"
            raise Rejection("bad-encoding", f"{detail} {self._encoding}: {error.reason}") from None


BLOCK_BYTES = 1 << 18  # 256 KiB a read
TOKEN_BYTES = 4 << 20  # 4 MiB of one tag or comment, which expat holds in memory
_PROLOG_BYTES = 1 << 20  # 1 MiB before the first element, such as declarations of entities
# With tags of at most TOKEN_BYTES these bound what entities in an attribute may expand to.
_ENTITY_CHARS = 4096
_ENTITY_DEPTH = 16
_REFERENCE = re.compile(r"&([^;&#]+);")
_PREDEFINED = frozenset(("amp", "lt", "gt", "quot", "apos"))


class RootElement(NamedTuple):
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


def root_of(file: ByteStream, encoding: str) -> RootElement:
    """The first element of a file.

    Raises:
        Rejection: There is none.
    """
    roots: list[RootElement] = []
    data = b""

    def start(name: str, attributes: Sequence[str]) -> None:
        if not roots:
            roots.append(RootElement(name, attributes, data[: parser.CurrentByteIndex]))

    parser = new_parser(Entities())
    parser.StartElementHandler = start
    blocks = Utf8Blocks(file, encoding)
    while not roots:
        raw, clean = blocks.next(BLOCK_BYTES)
        if not raw:
            file.check_whole()
        data += raw
        try:
            parser.Parse(clean, not raw)
        except expat.ExpatError as error:
            if not roots:
                raise malformed(error) from None
        if not roots and len(data) > _PROLOG_BYTES:
            raise Rejection("bad-xml", f"no element begins in its first {_PROLOG_BYTES} bytes")
    return roots[0]


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
