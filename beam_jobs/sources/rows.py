"""Rows of column files: what Parquet and Arrow have in common.

A file is a sequence of groups of rows that are stored together. Listing reads the columns with
labels; the pictures of a group are read once, when its unit is opened, into a scratch file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import pyarrow as pa

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import ImageOptions
from beam_jobs.sources.base import MAX_RECORD_BYTES, Item, Raw, read_whole_file
from beam_jobs.sources.cells import Said, said_by, wanted_columns
from beam_jobs.sources.ranges import read_range
from shard_format import InputError

MAX_ROWS = 10**9  # of a file: the row number in a record id has 9 digits; more is damage
PLAUSIBLE_ROWS = 10**7  # of a group, whatever its bytes: a damaged number may be any
LIST_ROWS = 8192  # rows of labels in memory at a time
# Arrow takes a damaged size for one that there is no memory for.
DAMAGE = (pa.ArrowException, OSError, ValueError, UnicodeDecodeError, MemoryError)


class Group(NamedTuple):
    """Rows that are stored together; `bytes` is what their pictures take, about."""

    number: int
    rows: int
    bytes: int


class ColumnFile(Protocol):
    """A file of rows with named columns."""

    schema: pa.Schema

    def groups(self, columns: Sequence[str]) -> Iterator[tuple[Group, Iterable[pa.RecordBatch]]]:
        """Every group with some columns of its rows, of at least one row in all."""

    def pictures(self, group: int, column: str) -> Iterator[pa.RecordBatch]:
        """One column of one group, few rows at a time; groups are asked for in order."""


def why(error: Exception) -> str:
    """The first line of what a library says of damage."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def check_columns(schema: pa.Schema, options: ImageOptions, file_id: str) -> None:
    """Returns if a file has every column that the job needs, of a usable type.

    Raises:
        InputError: It does not.
    """
    flags = {"image": "--image-column", "label": "--label-column", "group": "--group-by"}
    flags["split"] = "--split column:"
    wanted = {"image": options.image_column, **wanted_columns(options)}
    columns = ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"
    for use, column in wanted.items():
        if column not in schema.names:
            candidates = [field.name for field in schema if holds_pictures(field.type)]
            hint = {
                "image": f"Say --image-column {candidates[0]}."
                if candidates
                else "Check the file.",
                "label": "Name it with --label-column, or say --no-labels.",
            }.get(use, "Name one of these.")
            raise InputError(
                f"{flags[use]} must name a column, got {column!r} and {file_id} has {columns}. "
                f"{hint}"
            )
        if schema.names.count(column) > 1:
            raise InputError(
                f"{flags[use]} must name one column, got {column!r} and {file_id} has it "
                f"{schema.names.count(column)} times: {columns}. Rename all but one."
            )
    kind = schema.field(options.image_column).type
    if not holds_pictures(kind):
        raise InputError(
            f"--image-column must hold bytes, or structs with the fields bytes and path, got "
            f"{options.image_column!r} of type {kind} in {file_id}, which has {columns}. "
            "Name another column."
        )


def holds_pictures(kind: pa.DataType) -> bool:
    """Whether a column of this type can hold encoded pictures."""
    if pa.types.is_struct(kind):
        index = kind.get_field_index("bytes")
        return index >= 0 and holds_pictures(kind.field(index).type)
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)


def class_names(schema: pa.Schema, column: str) -> list[str]:
    """The class names that Hugging Face datasets keep in the schema's metadata; [] if none."""
    try:
        feature = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]
    except (KeyError, TypeError, ValueError):
        return []
    feature = feature[0] if isinstance(feature, list) and feature else feature
    while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        feature = feature["feature"]
    names = feature.get("names") if isinstance(feature, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def file_items(
    file: Item, opened: ColumnFile, options: ImageOptions, first_block: int
) -> Iterator[Item]:
    """The records of one file; a refused one for the file itself, last, if a part is damaged.

    Args:
        file: As found, with its split.
        opened: The same file.
        options: The job.
        first_block: Number of its first group of rows among all files.
    """
    check_columns(opened.schema, options, file.record_id)
    names = class_names(opened.schema, options.label_column)
    columns = sorted(set(wanted_columns(options).values()))
    damage = ""
    row = 0
    groups = opened.groups(columns)
    while True:
        try:
            group, batches = next(groups)
        except StopIteration:
            break
        except DAMAGE as error:
            damage = damage or f"row {row} and what follows cannot be read: {why(error)}"
            break
        if row + group.rows > MAX_ROWS or group.rows > max(PLAUSIBLE_ROWS, group.bytes):
            damage = damage or f"it declares {group.rows} rows in {group.bytes} bytes"
            break
        found = 0
        size = group.bytes // max(1, group.rows)
        try:
            for said in _said(batches, columns, names, options):
                item = file._replace(
                    record_id=f"{file.record_id}/{row + found:09d}",
                    size=size,
                    locator=f"{group.number}:{found}",
                    block=first_block + group.number,
                )
                if isinstance(said, Rejection):
                    item = item._replace(refused=str(said))
                else:
                    split = said.split or file.split
                    item = item._replace(label=said.label, group=said.group, split=split)
                yield item
                found += 1
        except DAMAGE as error:
            place = f"rows {row + found} to {row + group.rows - 1}"
            damage = damage or f"{place} cannot be read: {why(error)}"
        else:
            if found != group.rows:
                damage = damage or f"{group.rows} rows are declared from {row} on, it has {found}"
        row += max(found, group.rows)
    if damage:
        yield file._replace(refused=f"damaged-file: {damage}")


def _said(
    batches: Iterable[pa.RecordBatch],
    columns: list[str],
    names: Sequence[str],
    options: ImageOptions,
) -> Iterator[Said | Rejection]:
    """What the columns say of each row, or why they make it unusable."""
    nothing = Said()
    for batch in batches:
        if not columns:
            yield from (nothing for _ in range(batch.num_rows))
            continue
        batch.validate(full=True)
        values = [batch.column(column).to_pylist() for column in columns]
        for row in zip(*values, strict=True):
            try:
                yield said_by(dict(zip(columns, row, strict=True)), names, options)
            except Rejection as refusal:
                yield refusal


class RowSpool:
    """The pictures of a unit's rows in a scratch file."""

    def __init__(self, scratch: Path, sink: IO[bytes]) -> None:
        self._scratch = bytes(scratch)
        self._sink = sink
        self._kept: dict[tuple[bytes, str], tuple[int, int] | Rejection] = {}
        self._damage: dict[bytes, str] = {}

    def keep_file(self, path: bytes, file: ColumnFile, column: str, locators: set[str]) -> None:
        """Keeps the pictures of some rows of a file, as far as they can be read."""
        groups = sorted({int(locator.partition(":")[0]) for locator in locators})
        for group in groups:
            row = 0
            try:
                for batch in file.pictures(group, column):
                    batch.validate(full=True)
                    for picture in _pictures(batch.column(0)):
                        locator = f"{group}:{row}"
                        row += 1
                        if locator in locators:
                            self._kept[(path, locator)] = self._keep(picture)
            except DAMAGE as error:
                self.fail(path, why(error))

    def fail(self, path: bytes, reason: str) -> None:
        """Notes why rows of a file are not kept."""
        self._damage.setdefault(path, reason)

    def _keep(self, picture: pa.Buffer | Rejection) -> tuple[int, int] | Rejection:
        if isinstance(picture, Rejection):
            return picture
        if picture.size > MAX_RECORD_BYTES:
            return Rejection("file-too-large", f"the picture has {picture.size} bytes")
        start = self._sink.tell()
        self._sink.write(picture)
        return start, picture.size

    def read(self, item: Item) -> Raw:
        """See Source.open."""
        if not item.locator:
            return read_whole_file(item)
        kept = self._kept.get((item.path, item.locator))
        if kept is None:
            detail = self._damage.get(item.path, "the file has fewer rows than when it was listed")
            raise Rejection("damaged-record", f"the row cannot be read: {detail}")
        if isinstance(kept, Rejection):
            raise Rejection(kept.reason, kept.detail)
        return Raw(read_range(self._scratch, *kept), item.label, item.group, item.split)


def _pictures(column: pa.Array) -> Iterator[pa.Buffer | Rejection]:
    """The bytes in each cell, without copying them."""
    paths: Any = None
    if pa.types.is_struct(column.type):
        children = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
        column, paths = children["bytes"], children.get("path")
    for row, cell in enumerate(column):
        if cell.is_valid:
            yield cell.as_buffer()
            continue
        path = paths[row].as_py() if paths is not None else None
        if path:
            detail = f"the cell has no bytes but the path {path[:200]!a}: embed the pictures"
            yield Rejection("external-path", detail)
        else:
            yield Rejection("no-image", "the cell is null")
