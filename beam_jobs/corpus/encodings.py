"""ByteStream to text, and which encoding they are in.

`--encoding auto` takes, in this order: a byte order mark; escape sequences of ISO-2022 and HZ;
UTF-8, if the bytes are that; what the file declares, if it decodes; UTF-16 and UTF-32 by their
zeros; what `encoding_detection` makes of the first MiB. Text that is valid UTF-8 with characters
that are not ASCII is hardly ever anything else, so it comes before declarations, which often err.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import NamedTuple

from beam_jobs.corpus.encoding_declarations import declared_in_text, larger_ones
from beam_jobs.corpus.encoding_detection import likely_encoding, wide_encoding
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.streams import ByteStream
from beam_jobs.options.encodings import AUTO

_INSPECTED_BYTES = 1 << 20  # 1 MiB of a file decides its encoding
_MARKS = (  # UTF-32 first: its little-endian mark begins as that of UTF-16 does
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ZEROS_OF = {  # which bytes of a code unit are zero in Latin text
    "utf-32-le": (0, 0, 1, 1),
    "utf-32-be": (1, 1, 0, 0),
    "utf-16-le": (0, 1),
    "utf-16-be": (1, 0),
}
_FEW, _MANY = 0.1, 0.6  # shares of zeros that decide; text that is not Latin has spaces
# Escape sequences that begin another character set (RFC 1468, 1554, 1557, 1922), and HZ (RFC 1843).
_ESCAPES = (
    ("iso2022_kr", re.compile(rb"\x1b\$\)C")),
    ("iso2022_cn", re.compile(rb"\x1b\$(\)[AGE]|\*H)")),
    ("iso2022_jp", re.compile(rb"\x1b(\$[@B]|\$\([DOPQ]|\([IJ])")),
)
_HZ = re.compile(rb"~\{(?:[\x21-\x77][\x21-\x7e])+~\}")
# These have a state that passes from line to line, so lines cannot be read one by one.
STATEFUL = frozenset(
    ("hz", "iso2022_kr", "utf-7", *(f"iso2022_jp{kind}" for kind in ("", "_1", "_2", "_3", "_ext")))
) | {"iso2022_jp_2004"}
_MOST_BAD = 0.25  # bad bytes by good characters, of UTF-8 with damage


class Encoding(NamedTuple):
    """An encoding of lines.

    Attributes:
        name: As Python calls it.
        newline: A line break in it.
        carriage: A carriage return in it.
        source: The encoding of the file, if its lines were converted to this one; else "".
    """

    name: str
    newline: bytes
    carriage: bytes
    source: str = ""

    def without_end(self, line: bytes) -> bytes:
        """A line without its line break."""
        line = line.removesuffix(self.newline)
        while line.endswith(self.carriage) and len(line) % len(self.newline) == 0:
            line = line.removesuffix(self.carriage)
        return line

    def is_blank(self, data: bytes) -> bool:
        """Whether there is only white space."""
        if len(self.newline) > 1:
            return not data.decode(self.name, "replace").strip()
        return not data.strip()


UTF8 = Encoding("utf-8", b"\n", b"\r")


def encoding_of_lines(file: ByteStream, encoding: str) -> Encoding:
    """The encoding of a file whose lines are read one by one.

    Args:
        file: At its beginning; what is looked at is read again.
        encoding: The value of --encoding.

    Raises:
        Rejection: Detection is not sure.
    """
    name = normal_name(encoding)
    if encoding == AUTO:
        head = file.head(_INSPECTED_BYTES)
        name = detected(head, declared=declared_in_text(head))
    elif name in ("utf-16", "utf-32"):
        # Without a mark, little-endian, as nearly all such files are.
        name = marked(file.head(4)) or f"{name}-le"
    return Encoding(name, "\n".encode(name), "\r".encode(name))


def normal_name(encoding: str) -> str:
    """The name that Python prefers for an encoding; AUTO stays."""
    if encoding == AUTO:
        return AUTO
    name = codecs.lookup(encoding).name
    return "utf-8" if name == "utf-8-sig" else name


def decode(
    data: bytes, encoding: str, start: int = 0, declared: Iterable[str] = ()
) -> tuple[str, str]:
    """(text, encoding) of the bytes of a document, without the byte order mark of a file.

    Args:
        data: The bytes.
        encoding: The value of --encoding, or the name of an encoding.
        start: Where in the file the bytes begin.
        declared: With auto: as `detected` takes it.

    Raises:
        Rejection: Detection is not sure, or they are not valid in this encoding (the detail has
            the first bad byte), or contain zeros, which text does not.
    """
    name = encoding
    if encoding == AUTO:
        name = detected(data, whole=True, declared=declared)
    if name in ("utf-16", "utf-32"):
        name = marked(data[:4]) or f"{name}-le"
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        at = start + error.start
        place = f"byte {data[error.start]:#04x} at offset {at}" if data else "nothing"
        detail = f"{place} is not valid {name}: {error.reason}"
        hint = "" if encoding == AUTO or not marked(data[:4]) else "; --encoding auto may read it"
        raise Rejection("bad-encoding", detail + hint) from None
    except (UnicodeError, ValueError) as error:  # some codecs do not say where
        raise Rejection("bad-encoding", f"it is not valid {name}: {error}") from None
    if "\0" in text:
        at = start + len(text[: text.index("\0")].encode(name, "replace"))
        hint = (
            "; --encoding auto may read it" if encoding == "utf-8" and wide_by_zeros(data) else ""
        )
        raise Rejection("binary-data", f"there is a zero at offset {at}, so this is not text{hint}")
    return text if start else text.removeprefix("\ufeff"), name


def decode_value(data: bytes) -> str:
    """The text of a value of a column, in UTF-8: a mark that begins it is a character of it.

    Raises:
        Rejection: As `decode` does.
    """
    text, _ = decode(data, "utf-8")
    return f"\ufeff{text}" if data.startswith(codecs.BOM_UTF8) else text


def marked(head: bytes) -> str:
    """The encoding that a byte order mark at the beginning names; "" if there is none."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), "")


def detected(data: bytes, *, whole: bool = False, declared: Iterable[str] = ()) -> str:
    """The encoding that bytes are in.

    Args:
        data: All or the beginning.
        whole: It is all: UTF-8 must then hold to the end.
        declared: What is declared to be the encoding, in the order to try them.

    Raises:
        Rejection: It is not clear.
    """
    head = data[:_INSPECTED_BYTES]
    if name := marked(head) or _by_escapes(head):
        return name
    is_whole = whole or len(head) < _INSPECTED_BYTES
    if is_utf8(data if whole else head, whole=is_whole):
        return (_by_zeros(head, is_whole) if b"\0" in head else "") or "utf-8"
    if _is_nearly_utf8(head):
        return "utf-8"
    for name in declared:
        if _decodes(data if whole else head, name, is_whole):
            return name
    if b"\0" in head:
        return _by_zeros(head, is_whole) or "utf-8"
    return likely_encoding(head, whole=is_whole)


def _by_escapes(head: bytes) -> str:
    """The encoding of 7 bits that escape sequences show; "" if there are none.

    Raises:
        Rejection: It is ISO-2022-CN, for which there is no codec.
    """
    if b"\x1b$" not in head and b"\x1b(" not in head and b"~{" not in head:
        return ""
    if not head.isascii():
        return ""
    for name, sequence in _ESCAPES:
        if sequence.search(head):
            if name == "iso2022_cn":
                detail = "it is ISO-2022-CN, for which Python has no codec; convert it to UTF-8"
                raise Rejection("bad-encoding", detail)
            names = (one for one in larger_ones(name) if _decodes(head, one, whole=False))
            return next(names, "")
    is_hz = 0 < head.count(b"~{") == len(_HZ.findall(head))
    return "hz" if is_hz and _decodes(head, "hz", whole=False) else ""


def _by_zeros(head: bytes, whole: bool) -> str:
    return wide_by_zeros(head) or wide_encoding(head, whole=whole)


def _decodes(data: bytes, name: str, whole: bool) -> bool:
    """Whether bytes are text in an encoding; a last character may be cut unless they are all."""
    try:
        return "\0" not in codecs.getincrementaldecoder(name)().decode(data, final=whole)
    except (UnicodeError, ValueError):
        return False


def _is_nearly_utf8(head: bytes) -> bool:
    """Whether bytes are UTF-8 with some damage: it costs the damaged part, not the rest."""
    text = head.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = len(text) - len(text.encode("ascii", "ignore")) - bad
    return bad <= _MOST_BAD * good


def is_utf8(data: bytes, *, whole: bool) -> bool:
    """Whether bytes are UTF-8; a last character may be cut unless they are all."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def wide_by_zeros(head: bytes) -> str:
    """UTF-16 or UTF-32 by which bytes of a code unit are zero; "" if it is neither."""
    for name, zeros in _ZEROS_OF.items():
        width = len(zeros)
        shares = [_zeros(head[at::width]) for at in range(width)]
        expected = zip(shares, zeros, strict=True)
        if all(share > _MANY if zero else share < _FEW for share, zero in expected):
            return name
    return ""


def _zeros(data: bytes) -> float:
    return data.count(0) / max(1, len(data))
