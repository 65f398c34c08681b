"""Rows of a table beside a corpus, in a file: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.encodings import Encoding
from beam_jobs.corpus.formats.delimited import DelimitedRow, DelimitedRows
from beam_jobs.corpus.formats.lines import read_lines
from beam_jobs.corpus.formats.parquet import ParquetFile
from beam_jobs.corpus.formats.row_sizes import bounded
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.sniffing import is_coco
from beam_jobs.corpus.streams import ByteStream, FileRange, opened
from foundation import storage
from shard_format import InputError

_PARQUET = b"PAR1"  # how a Parquet file begins
_BATCH_ROWS = 8192
_BYTES = Encoding("latin-1", b"\n", b"\r")  # every byte is a character of it
_BLOCK_BYTES = 4 << 20  # 4 MiB; a row of CSV must be shorter
_FIRST_LINES = 100  # of JSON, whose keys are the columns of the table


class TableRows:
    """The rows of a file.

    Args:
        path: The file.
        flag: The option that names it, for messages.

    Attributes:
        names: Its columns; of JSON lines those that were seen so far.
        schema: Schema of a Parquet file; None for other forms.
    """

    def __init__(self, path: str, flag: str) -> None:
        self._path, self._flag = path, flag
        with FileRange(os.fsencode(path)) as raw:
            head = raw.look(1 << 16)
        self._codec = "" if head.startswith(_PARQUET) else codec_of(head)
        self._form = self._find_form(head)
        self.schema: pa.Schema | None = None
        self.names: list[str] = []
        if self._form == "parquet":
            self.schema = self._parquet_file().schema
            self.names = list(self.schema.names)
        elif self._form != "jsonl":
            self.names = self._header()

    @property
    def knows_names(self) -> bool:
        """Whether all columns are known before the rows are read."""
        return self._form != "jsonl"

    @property
    def is_object(self) -> bool:
        """Whether it is one JSON object in the form of COCO."""
        return self._form == "jsonl" and is_coco(os.fsencode(self._path))

    def rows(self, wanted: Sequence[str]) -> Iterator[dict[str, Any] | Rejection]:
        """The wanted fields of every row, by column; or why it cannot be read.

        Raises:
            Rejection: The file is damaged.
            InputError: It is JSON, but not a line for each row.
        """
        if self._form in ("csv", "tsv"):
            return self._csv(wanted)
        return self._parquet(wanted) if self._form == "parquet" else self._json(wanted)

    def _find_form(self, head: bytes) -> str:
        if head.startswith(_PARQUET):
            return "parquet"
        name = os.path.basename(self._path).lower()
        if self._codec:
            name = name.rpartition(".")[0]
        if name.endswith((".jsonl", ".ndjson", ".json")):
            return "jsonl"
        if name.endswith((".csv", ".tsv", ".tab")):
            return "csv" if name.endswith(".csv") else "tsv"
        with self._open() as file:
            first = file.read(1 << 16).partition(b"\n")[0]
        if first.lstrip().startswith(b"{"):
            return "jsonl"
        return "tsv" if first.count(b"\t") > first.count(b",") else "csv"

    def _open(self) -> ByteStream:
        return opened(FileRange(os.fsencode(self._path)), self._codec)

    def _delimited(self, file: ByteStream) -> Iterator[DelimitedRow]:
        delimiter = "," if self._form == "csv" else "\t"
        lines = read_lines(file, _BYTES, _BLOCK_BYTES)
        return iter(DelimitedRows(lines, _BYTES, delimiter, _BLOCK_BYTES))

    def _header(self) -> list[str]:
        with self._open() as file:
            header = next(self._delimited(file), None)
        if header is None:
            raise Rejection("no-header", "Empty CSV file")
        if header.rejection is not None:
            raise header.rejection
        names = [_as_bytes(name).decode("utf-8", "replace") for name in header.values]
        return [names[0].removeprefix("\ufeff"), *names[1:]]

    def _csv(self, wanted: Sequence[str]) -> Iterator[dict[str, Any] | Rejection]:
        places = {name: self.names.index(name) for name in wanted}
        with self._open() as file:
            rows = self._delimited(file)
            next(rows)
            for row in rows:
                if row.rejection is not None:
                    yield row.rejection
                elif len(row.values) != len(self.names):
                    yield _ragged(row, len(self.names))
                else:
                    yield {name: _as_bytes(row.values[at]) for name, at in places.items()}
            file.check_whole()

    def _parquet_file(self) -> ParquetFile:
        return ParquetFile(storage.open_arrow(storage.place_of(self._path), mapped=False))

    def _parquet(self, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
        file = self._parquet_file()
        for group in file.groups():
            for batch in file.batches(group, list(wanted)):
                yield from _rows_of(batch)

    def _json(self, wanted: Sequence[str]) -> Iterator[dict[str, Any] | Rejection]:
        """Line by line: a value may be a number in one and a list in another."""
        seen: set[str] = set()
        with self._open() as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                fields = _json_object(line, number)
                if isinstance(fields, Rejection):
                    if number == 1:  # it is not JSON Lines
                        detail = fields.detail
                        if line.strip() in (b"[", b"{"):
                            detail = "all lines are one JSON value"
                        raise InputError(
                            f"In {self._flag} {self._path}, {detail}. Write one object a line."
                        )
                    yield fields
                    continue
                if number < _FIRST_LINES or not seen.issuperset(wanted):
                    seen.update(fields)
                    self.names = sorted(seen)
                yield {name: fields.get(name) for name in wanted}
            file.check_whole()


def printable(text: str) -> str:
    """Without what would change the terminal: Arrow shows the row, which may be of a workbook."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _ragged(row: DelimitedRow, columns: int) -> Rejection:
    shown = printable(row.data.decode("utf-8", "replace").rstrip()[:200])
    detail = f"the row {shown!r} has {len(row.values)} fields, of {columns} columns"
    return Rejection("ragged-row", detail)


def _as_bytes(value: str) -> bytes:
    """The bytes of a value that was read as Latin-1: those that are not UTF-8 may be of a path."""
    return value.encode(_BYTES.name)


def _json_object(line: bytes, number: int) -> dict[str, Any] | Rejection:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Rejection("bad-json", f"line {number} is not JSON: {error}")
    if not isinstance(fields, dict):
        return Rejection("bad-json", f"line {number} is a {type(fields).__name__}, not an object")
    return dict(fields)


def _rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for part in range(0, batch.num_rows, _BATCH_ROWS):
        for rows, _ in bounded(batch.slice(part, _BATCH_ROWS), _BLOCK_BYTES):
            yield from rows.to_pylist()
