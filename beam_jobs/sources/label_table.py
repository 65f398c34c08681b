"""The table of --labels, whatever its form: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import ImageOptions
from beam_jobs.sources.cells import said_by, wanted_columns
from beam_jobs.sources.compression import Stream, codec_of, open_stream
from beam_jobs.sources.forwards import open_forwards
from beam_jobs.sources.rows import class_names, why
from shard_format import InputError

_PARQUET = b"PAR1"  # how a Parquet file begins
_BATCH_ROWS = 8192
_BLOCK_BYTES = 4 << 20  # 4 MiB; a row of CSV must be shorter
_ESCAPED = re.compile(rb"//x([0-9a-f]{2})")
_ROWS = pa.schema(
    [
        # The path with 0x00 for "/", so that sorting gives the order in which folders are walked.
        pa.field("key", pa.binary()),
        pa.field("label", pa.string()),
        pa.field("group", pa.string()),
        pa.field("split", pa.string()),
        pa.field("refused", pa.string()),
        pa.field("row", pa.int64()),
    ]
)
_COLUMN_FLAGS = {
    "path": "--path-column",
    "label": "--label-column",
    "group": "--group-by",
    "split": "--split column:",
}


def read_label_table(path: str, options: ImageOptions) -> pa.Table:
    """The rows of the table: key, label, group, split, why refused or "", row number.

    Raises:
        InputError: It cannot be read, or lacks a column.
    """
    columns = {"path": options.path_column, **wanted_columns(options)}
    if os.path.exists(path) and not os.path.isfile(path):
        # It is opened more than once; a pipe would lose rows, or be waited for without end.
        raise InputError(
            "--labels must be a file that can be read more than once, got a folder, a pipe or a "
            f"device for {path}. Write the table to a file."
        )
    try:
        return pa.Table.from_batches(list(_batches(path, columns, options)), _ROWS)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--labels must be a file that can be read, got '{reason}' for {path}. Check the path."
        ) from error
    except (pa.ArrowException, Rejection) as error:
        raise InputError(
            f"--labels must be a CSV, TSV, JSONL or Parquet table in good order, got in {path}: "
            f"{_printable(why(error))}. Mend the table."
        ) from error


def _printable(text: str) -> str:
    """Without what would change the terminal: Arrow shows the row, which may be of a workbook."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _batches(path: str, columns: dict[str, str], options: ImageOptions) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[Any, ...]] = []
    names = _class_names(path, options)
    for number, fields in enumerate(_rows(path, columns)):
        rows.append(_row(number, fields, names, options))
        if len(rows) == _BATCH_ROWS:
            yield _batch(rows)
            rows.clear()
    if rows:
        yield _batch(rows)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), _ROWS, strict=True)
    ]
    return pa.record_batch(columns, schema=_ROWS)


def _class_names(path: str, options: ImageOptions) -> list[str]:
    """The names that Hugging Face keeps in a Parquet table for its numbers; [] if none."""
    with open(path, "rb") as file:
        if file.read(len(_PARQUET)) != _PARQUET:
            return []
    return class_names(pq.read_schema(path), options.label_column)


def _row(
    number: int, fields: dict[str, Any], names: Sequence[str], options: ImageOptions
) -> tuple[Any, ...]:
    try:
        key = _key(fields.get(options.path_column))
    except Rejection as refusal:
        return (None, None, None, None, str(refusal), number)
    try:
        said, refused = said_by(fields, names, options), ""
    except Rejection as refusal:
        return (key, None, None, None, str(refusal), number)
    return (key, *said, refused, number)


def _key(value: Any) -> bytes:
    """A path of the table, below the folder of pictures.

    Raises:
        Rejection: There is none, or it leads out of that folder.
    """
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if not isinstance(value, bytes) or not value:
        raise Rejection("no-path", f"the row has the path {value!a}")
    path = value
    if b"//x" in path:  # a name that is no UTF-8, as record ids spell it
        path = _ESCAPED.sub(lambda match: bytes((int(match[1], 16),)), path)
    if b"//" in path or b"./" in path or path.startswith(b"/") or path.endswith((b".", b"/")):
        path = posixpath.normpath(path)
    if path.startswith(b"/"):
        raise Rejection(
            "unsafe-path", f"the path {value[:200]!a} is not relative to the folder SRC"
        )
    if path.split(b"/", 1)[0] == b".." or b"\0" in path:
        raise Rejection("unsafe-path", f"the path {value[:200]!a} leads out of the folder of SRC")
    return path.replace(b"/", b"\0")


def _rows(path: str, columns: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The wanted fields of every row, by column."""
    name = os.fsencode(path)
    with open(name, "rb") as file:
        head = file.read(len(_PARQUET))
    codec = "" if head == _PARQUET else codec_of(name)
    form = _form(path, head, codec)
    if form == "parquet":
        yield from _parquet_rows(path, columns)
    elif form == "jsonl":
        yield from _json_rows(path, codec, columns)
    else:
        yield from _csv_rows(path, codec, "\t" if form == "tsv" else ",", columns)


def _form(path: str, head: bytes, codec: str) -> str:
    if head == _PARQUET:
        return "parquet"
    name = os.path.basename(path).lower()
    if codec:
        name = name.rpartition(".")[0]
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return "jsonl"
    if name.endswith((".csv", ".tsv", ".tab")):
        return "csv" if name.endswith(".csv") else "tsv"
    with open_forwards(os.fsencode(path), codec) as source:
        first = source.take(1 << 16).partition(b"\n")[0]
    if first.lstrip().startswith(b"{"):
        return "jsonl"
    return "tsv" if first.count(b"\t") > first.count(b",") else "csv"


def _csv_rows(
    path: str, codec: str, delimiter: str, columns: dict[str, str]
) -> Iterator[dict[str, Any]]:
    read = pa.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
    parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with _Opened(path, codec) as source:
        names = pa.csv.open_csv(source, read, parse).schema.names
    _check_columns(names, columns, path)
    wanted = sorted(set(columns.values()))
    # Binary: what is no UTF-8 is then a matter of its row alone, and 007 stays what it is.
    convert = pa.csv.ConvertOptions(
        include_columns=wanted, column_types=dict.fromkeys(wanted, pa.binary())
    )
    with _Opened(path, codec) as source:
        for batch in pa.csv.open_csv(source, read, parse, convert):
            yield from _rows_of(batch)


class _Opened:
    """A file for Arrow to read, decompressed."""

    def __init__(self, path: str, codec: str) -> None:
        self._path, self._codec = path, codec

    def __enter__(self) -> Any:
        if not self._codec:
            self._file = pa.OSFile(self._path)
            return self._file
        self._stream = open_stream(os.fsencode(self._path), self._codec)
        return pa.PythonFile(_Readable(self._stream.__enter__()), "r")

    def __exit__(self, *error: Any) -> None:
        if self._codec:
            self._stream.__exit__(None, None, None)
        else:
            self._file.close()


class _Readable:
    """What Arrow asks of a file."""

    closed = False

    def __init__(self, stream: Stream) -> None:
        self.read = stream.read

    def close(self) -> None:
        """The stream is closed by who opened it."""


def _parquet_rows(path: str, columns: dict[str, str]) -> Iterator[dict[str, Any]]:
    file = pq.ParquetFile(path, pre_buffer=False)
    _check_columns(file.schema_arrow.names, columns, path)
    for batch in file.iter_batches(_BATCH_ROWS, columns=sorted(set(columns.values()))):
        yield from _rows_of(batch)


def _rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    for part in range(0, batch.num_rows, _BATCH_ROWS):
        values = [column.to_pylist() for column in batch.slice(part, _BATCH_ROWS).columns]
        for row in zip(*values, strict=True):
            yield dict(zip(names, row, strict=True))


def _json_rows(path: str, codec: str, columns: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Line by line: a label may be a number in one and a list in another."""
    wanted = set(columns.values())
    seen: set[str] = set()
    for number, line in enumerate(_lines(path, codec), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"--labels must have a JSON object on every line, got {error} on line {number} of "
                f"{path}. Mend that line."
            ) from None
        if not isinstance(fields, dict):
            raise InputError(
                f"--labels must have a JSON object on every line, got a {type(fields).__name__} on "
                f"line {number} of {path}. Write one object a line."
            )
        if len(seen) < len(wanted) or number < 100:
            seen.update(fields)
        yield {name: fields.get(name) for name in wanted}
    _check_columns(sorted(seen), columns, path)


def _lines(path: str, codec: str) -> Iterator[bytes]:
    with open_forwards(os.fsencode(path), codec) as source:
        rest = b""
        while block := source.take(_BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
        if rest:
            yield rest


def _check_columns(names: Iterable[str], columns: dict[str, str], path: str) -> None:
    """Returns if the table has every column that is wanted, once.

    Raises:
        InputError: It does not.
    """
    found = list(names)
    for use, column in columns.items():
        if found.count(column) != 1:
            count = "no" if column not in found else str(found.count(column))
            raise InputError(
                f"{_COLUMN_FLAGS[use]} must name one column of the table, got {column!r} and "
                f"{count} such column in {path}, which has {', '.join(map(repr, found))}. Name "
                f"one of these{' or say --no-labels' if use == 'label' else ''}."
            )
