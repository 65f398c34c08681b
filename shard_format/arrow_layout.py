"""Where the columns of an Arrow file are, so that rows of some are read by byte ranges.

Arrow itself opens a file by reading the metadata of all its record batches, and reads whole columns
of them. Of an index in parts, a reader needs some rows of some columns of a part. The two tables of
the format that say where these are, the footer and the head of a record batch, are FlatBuffers
(https://arrow.apache.org/docs/format/Columnar.html).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_MAGIC = b"ARROW1"
_END = struct.Struct("<i6s")  # bytes of the footer, and the magic, which end a file
_PREFIX_BYTES = 8  # of the head of a batch: a marker, and its length
_BLOCK = np.dtype([("offset", "<i8"), ("head", "<i4"), ("pad", "<i4"), ("body", "<i8")])
_BUFFER = np.dtype([("offset", "<i8"), ("size", "<i8")])
# Of tables of the format: the numbers of their fields.
_RECORD_BATCHES, _HEADER = 3, 2
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3


class Blocks(NamedTuple):
    """The record batches of a file: [n] int64 each.

    Attributes:
        offsets: First byte of the head of a batch; its body is behind it.
        head_bytes: Bytes of the head.
    """

    offsets: npt.NDArray[np.int64]
    head_bytes: npt.NDArray[np.int64]


def footer_bytes(end: bytes) -> int:
    """Bytes of the footer and of what is behind it, from the last bytes of a file.

    Raises:
        ValueError: It is not the end of an Arrow file.
    """
    if len(end) < _END.size:
        raise ValueError("it is too short")
    size, magic = _END.unpack(end[-_END.size :])
    if magic != _MAGIC or size <= 0:
        raise ValueError("it does not end as Arrow files do")
    return int(size) + _END.size


def blocks_of(end: bytes) -> Blocks:
    """The record batches of a file, from its last `footer_bytes` or more.

    Raises:
        ValueError: The footer is damaged.
    """
    footer = end[len(end) - footer_bytes(end) : -_END.size]
    blocks = _vector(footer, _field(footer, _root(footer), _RECORD_BATCHES), _BLOCK)
    return Blocks(blocks["offset"].astype(np.int64), blocks["head"].astype(np.int64))


def column_places(head: bytes, buffers: list[int]) -> tuple[int, list[int]]:
    """The rows of a batch, and where columns begin, counted from the first byte of its head.

    Args:
        head: The head.
        buffers: For each column, the number of its buffer; see `value_buffers`.

    Raises:
        ValueError: The head is damaged, or the columns are compressed.
    """
    message = head[_PREFIX_BYTES:]
    batch = _field(message, _root(message), _HEADER)
    batch = _follow(message, batch)
    if _field(message, batch, _COMPRESSION):
        raise ValueError("its columns are compressed")
    places = _vector(message, _field(message, batch, _BUFFERS), _BUFFER)
    if max(buffers) >= len(places):
        raise ValueError("a record batch lacks a column")
    at = _field(message, batch, _LENGTH)
    rows = struct.unpack_from("<q", message, at)[0] if at else 0
    return rows, [len(head) + int(places[number]["offset"]) for number in buffers]


def value_buffers(schema: pa.Schema, names: tuple[str, ...]) -> list[int]:
    """The numbers of the buffers with the values of columns of whole numbers.

    Raises:
        ValueError: There is no such column, or it is of another type.
    """
    before, numbers = 0, {}
    for field in schema:
        if pa.types.is_integer(field.type):
            numbers[field.name] = before + 1  # behind that of the nulls
        before += _count_buffers(field.type)
    missing = [name for name in names if name not in numbers]
    if missing:
        raise ValueError(f"it has no column of whole numbers {', '.join(missing)}")
    return [numbers[name] for name in names]


def _count_buffers(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind):
        return 1 + _count_buffers(kind.value_type)
    if pa.types.is_list(kind):
        return 2 + _count_buffers(kind.value_type)
    return 3 if pa.types.is_string(kind) or pa.types.is_binary(kind) else 2


def _root(data: bytes) -> int:
    return _follow(data, 0)


def _follow(data: bytes, at: int) -> int:
    """The place that the 32-bit offset at a place leads to."""
    if not 0 <= at <= len(data) - 4:
        raise ValueError("its metadata is damaged")
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0 if the table does not have it."""
    try:
        fields = table - struct.unpack_from("<i", data, table)[0]
        if fields < 0 or table < 0:
            raise ValueError("its metadata is damaged")
        size = struct.unpack_from("<H", data, fields)[0]
        at = 4 + 2 * number
        offset = struct.unpack_from("<H", data, fields + at)[0] if at < size else 0
    except struct.error as error:
        raise ValueError("its metadata is damaged") from error
    return table + offset if offset else 0


def _vector(data: bytes, at: int, kind: np.dtype[np.void]) -> npt.NDArray[np.void]:
    begin = _follow(data, at)
    if not at or begin > len(data) - 4:
        raise ValueError("its metadata is damaged")
    count = struct.unpack_from("<I", data, begin)[0]
    if begin + 4 + count * kind.itemsize > len(data):
        raise ValueError("its metadata is damaged")
    return np.frombuffer(data, kind, count, begin + 4)
