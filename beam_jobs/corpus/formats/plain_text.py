"""Plain text: a file is a document, or every line, or the text between separators."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from beam_jobs.corpus.encoding_declarations import declared_in_text
from beam_jobs.corpus.encodings import decode
from beam_jobs.corpus.formats.base import FilePart, Format, Found, FoundRecord, Split
from beam_jobs.corpus.formats.lines import LineFormat
from beam_jobs.corpus.record import RawRecord
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.corpus.streams import ByteStream
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.encodings import AUTO

_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}


class PlainText(LineFormat):
    """Documents that are files, lines, or texts between separators."""

    def __init__(self, options: PreprocessOptions, extractor: FileExtractor) -> None:
        super().__init__(options, extractor)
        separator = self.text_form.separator or ""
        for written, meant in _ESCAPES.items():
            separator = separator.replace(written, meant)
        self._separator = separator

    @override
    def find(self, part: FilePart) -> Iterator[Found]:
        if self.text_form.per_line or self._separator:
            separator = "" if self.text_form.per_line else self._separator
            return self.find_lines(part, separator)
        return Format.find(self, part)

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        encoding, start = found.context or (self.text_form.encoding, 0)
        names = declared_in_text(found.data) if encoding == AUTO else ()
        text, encoding = decode(found.data, encoding, start, names)
        if self.text_form.per_line:
            text = text.rstrip("\r\n")  # editors put one after a replaced line
        return RawRecord("", found.data, text, part.annotations, found.parsed or encoding)

    @override
    def splits(self, file: ByteStream, size: int) -> list[Split]:
        kind = LineFormat if self.text_form.per_line else Format
        return kind.splits(self, file, size)
