"""ByteStream to text, and which encoding they are in.

`--encoding auto` takes a byte order mark for what it says, then UTF-8 if the bytes are that, then
what their zeros tell of UTF-16 and UTF-32, then what charset-normalizer makes of the first MiB.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

import charset_normalizer

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
# Encodings in use today (WHATWG Encoding Standard, section 4.2); others are tried after these.
_IN_USE = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("cp874", "cp866", "koi8_r", "koi8_u", "iso8859_2", "iso8859_5", "iso8859_7", "mac_roman"),
    *("gb18030", "big5", "big5hkscs", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949"),
    "iso2022_jp",
)
# Western European text is hard to tell from its neighbours, and is by far the most frequent: it is
# taken where it is nearly as likely. Margins by the files of udhr-mixed-encodings.
_USUAL, _MORE_CHAOS, _LESS_COHERENCE = "cp1252", 0.02, 0.03


class Encoding(NamedTuple):
    """An encoding of lines.

    Attributes:
        name: As Python calls it.
        newline: A line break in it.
        carriage: A carriage return in it.
    """

    name: str
    newline: bytes
    carriage: bytes

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


def encoding_of_lines(file: ByteStream, encoding: str) -> Encoding:
    """The encoding of a file whose lines are read one by one.

    Args:
        file: At its beginning; what is looked at is read again.
        encoding: The value of --encoding.
    """
    name = normal_name(encoding)
    if encoding == AUTO:
        name = detected(file.head(_INSPECTED_BYTES))
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


def decode(data: bytes, encoding: str, start: int = 0) -> tuple[str, str]:
    """(text, encoding) of the bytes of a document, without the byte order mark of a file.

    Args:
        data: The bytes.
        encoding: The value of --encoding, or the name of an encoding.
        start: Where in the file the bytes begin.

    Raises:
        Rejection: They are not valid in this encoding (the detail has the first bad byte), or
            contain zeros, which text does not.
    """
    name = detected(data, whole=True) if encoding == AUTO else encoding
    if name in ("utf-16", "utf-32"):
        name = marked(data[:4]) or f"{name}-le"
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        at = start + error.start
        found = f"byte {data[error.start]:#04x} at offset {at}" if data else "nothing"
        detail = f"{found} is not valid {name}: {error.reason}"
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


def detected(data: bytes, *, whole: bool = False) -> str:
    """The encoding that bytes are most likely in; UTF-8 if nothing hints at one.

    Args:
        data: All or the beginning.
        whole: It is all: UTF-8 must then hold to the end.
    """
    head = data[:_INSPECTED_BYTES]
    if name := marked(head):
        return name
    if is_utf8(data if whole else head, whole=whole or len(head) < _INSPECTED_BYTES):
        zeros = "" if b"\0" not in head else wide_by_zeros(head)
        return zeros or "utf-8"
    if b"\0" in head:
        return wide_by_zeros(head) or "utf-8"
    return _likely(head)


def _likely(head: bytes) -> str:
    """The guess of charset-normalizer; UTF-8, which the bytes are not, if it has none."""
    found = charset_normalizer.from_bytes(head, cp_isolation=list(_IN_USE))
    found = found or charset_normalizer.from_bytes(head)
    best = found.best()
    if best is None:
        return "utf-8"
    for one in found:
        is_usual = _USUAL in (one.encoding, *one.could_be_from_charset)
        is_near = one.chaos <= best.chaos + _MORE_CHAOS
        if is_usual and is_near and one.coherence >= best.coherence - _LESS_COHERENCE:
            return _USUAL
    return normal_name(best.encoding)


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
