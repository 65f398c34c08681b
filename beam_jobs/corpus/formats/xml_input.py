"""The bytes of an XML file as UTF-8, with what XML does not allow replaced."""

from __future__ import annotations

import codecs

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
