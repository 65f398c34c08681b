"""TFRecord framing: length, masked CRC-32C of the length, payload, masked CRC-32C of the payload.

Format: tensorflow/core/lib/io/record_writer.h. All integers are little-endian.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator
from typing import Any, Protocol

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foundation import storage
from foundation.errors import DamageError
from foundation.storage import Place

HEADER_BYTES = 12  # uint64 length + uint32 masked CRC of those 8 bytes
FOOTER_BYTES = 4  # uint32 masked CRC of the payload
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
"""Bytes that a frame adds to its payload."""

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER = struct.Struct("<QI")
_HEADERS = np.dtype([("length", "<u8"), ("crc", "<u4")])
_NOTHING = pa.scalar(b"", pa.large_binary())
_MASK_DELTA = 0xA282EAD8  # tensorflow/core/lib/hash/crc32c.h, kMaskDelta


class Readable(Protocol):
    """A file of Python or of PyArrow that records are read from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`."""


def masked_crc(data: bytes) -> int:
    """The CRC-32C of the data, rotated and offset as TFRecord stores it."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """The payload with the header and footer of one TFRecord."""
    length = _LENGTH.pack(len(payload))
    return b"".join(
        (length, _CRC.pack(masked_crc(length)), payload, _CRC.pack(masked_crc(payload)))
    )


def frame_columns(payloads: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """[n] large_binary, `frame` of each of [n] payloads."""
    lengths = np.asarray(pc.binary_length(payloads), np.int64)
    offsets, data = _buffers(payloads)
    crc = google_crc32c.value
    crcs = [crc(data[begin:end]) for begin, end in itertools.pairwise(offsets.tolist())]
    headers = np.empty(len(lengths), _HEADERS)
    headers["length"], headers["crc"] = lengths, _masked(_length_crcs(lengths))
    footers = _masked(np.array(crcs, np.uint32)).astype("<u4")
    return pc.binary_join_element_wise(
        _fixed(headers, HEADER_BYTES), payloads, _fixed(footers, FOOTER_BYTES), _NOTHING
    )


def _buffers(column: pa.LargeBinaryArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """([n + 1] offsets, the bytes that they are in) of a column."""
    _, places, values = column.buffers()
    offsets = np.frombuffer(places, np.int64)[column.offset : column.offset + len(column) + 1]
    return offsets, np.frombuffer(values or b"", np.uint8)


def _fixed(values: npt.NDArray[Any], size: int) -> pa.LargeBinaryArray:
    """[n] large_binary of [n] values of so many bytes."""
    offsets = pa.py_buffer(np.arange(len(values) + 1, dtype=np.int64) * size)
    buffers = [None, offsets, pa.py_buffer(values.tobytes())]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), buffers)


def _masked(crcs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """[n] checksums as TFRecord stores them."""
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_MASK_DELTA)


def _length_crcs(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """[n] CRC-32C of numbers of 8 bytes, by the sum of what each byte of them adds."""
    table = _crc_table()
    crcs = np.full(len(lengths), table[0, 0])
    for place in range(8):
        crcs ^= table[place, (lengths >> (8 * place)) & 0xFF] ^ table[0, 0]
    return crcs


@functools.cache
def _crc_table() -> npt.NDArray[np.uint32]:
    """[8, 256] uint32, the checksum of 8 bytes that are all zero but one."""
    zeros = [_LENGTH.pack(value << (8 * place)) for place in range(8) for value in range(256)]
    return np.array([google_crc32c.value(data) for data in zeros], np.uint32).reshape(8, 256)


def unframe(framed: bytes, where: object) -> bytes:
    """The payload of exactly one frame, after a check of both checksums.

    Args:
        framed: The whole frame.
        where: File and offset, for the message.

    Raises:
        DamageError: The frame is cut, or a checksum differs.
    """
    if len(framed) < FRAME_BYTES:
        raise DamageError(f"{where} has {len(framed)} bytes, a frame at least {FRAME_BYTES}")
    length, length_crc = _HEADER.unpack_from(framed)
    if masked_crc(framed[:8]) != length_crc:
        raise DamageError(f"the length of a record does not match its checksum in {where}")
    if length != len(framed) - FRAME_BYTES:
        raise DamageError(
            f"a record has {length} bytes instead of {len(framed) - FRAME_BYTES} in {where}"
        )
    payload = framed[HEADER_BYTES:-FOOTER_BYTES]
    if masked_crc(payload) != _CRC.unpack_from(framed, len(framed) - FOOTER_BYTES)[0]:
        raise DamageError(f"a record does not match its checksum in {where}")
    return payload


def whole_frames(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """[n] bool: whether frames are whole, by their lengths and both checksums.

    Args:
        data: [size] frames.
        begins: [n] where each frame begins in it.
        lengths: [n] bytes of each frame, as the index has them.
    """
    whole = (begins >= 0) & (lengths >= FRAME_BYTES) & (begins + lengths <= len(data))
    begins, lengths = begins[whole], lengths[whole] - FRAME_BYTES
    headers = data[begins[:, None] + np.arange(HEADER_BYTES)].view(_HEADERS)[:, 0]
    first = begins + HEADER_BYTES
    last = first + lengths
    footers = data[last[:, None] + np.arange(FOOTER_BYTES)].view("<u4")[:, 0]
    crc = google_crc32c.value
    places = zip(first.tolist(), last.tolist(), strict=True)
    crcs = np.array([crc(data[start:end]) for start, end in places], np.uint32)
    same = headers["length"] == lengths
    same &= headers["crc"] == _masked(_length_crcs(lengths))
    whole[whole] = same & (footers == _masked(crcs))
    return whole


def unframe_columns(
    data: bytes | bytearray,
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
) -> tuple[pa.LargeBinaryArray, int]:
    """([m] large_binary payloads of frames in any order, the first damaged frame or -1).

    There are no payloads if a frame is damaged, which `unframe` explains.

    Args:
        data: Frames.
        begins: [n] where each frame begins in it, ascending.
        lengths: [n] bytes of each frame, as the index has them.
        order: [m] the frames to return.
    """
    if not len(begins):
        return pa.array([], pa.large_binary()), -1
    ends = begins + lengths
    whole = whole_frames(np.frombuffer(data, np.uint8), begins, lengths)
    whole[1:] &= begins[1:] >= ends[:-1]
    if not whole.all():
        return pa.array([], pa.large_binary()), int(whole.argmin())
    first, last = begins + HEADER_BYTES, ends - FOOTER_BYTES
    # Every second value of this column is a payload, the others are the bytes in between.
    edges = pa.py_buffer(np.stack((first, last), axis=1).ravel())
    buffers = [None, edges, pa.py_buffer(data)]
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * len(begins) - 1, buffers)
    return column.take(pa.array(2 * order)), -1


def read_records(place: Place) -> Iterator[tuple[int, bytes]]:
    """Yields (byte offset of the frame, payload) of every record of a file, in order.

    Raises:
        DamageError: A checksum differs, or the file ends inside a record; names file and offset.
    """
    with storage.open_input(place) as file:
        yield from unframe_all(file, str(place))


def unframe_all(file: Readable, name: str) -> Iterator[tuple[int, bytes]]:
    """`read_records` of an open file.

    Args:
        file: At its beginning; only at its end may a read return fewer bytes than requested.
        name: For messages.

    Raises:
        DamageError: A checksum differs, or the file ends inside a record.
    """
    offset = 0
    while header := file.read(HEADER_BYTES):
        where = f"{name} at byte {offset}"
        if len(header) < HEADER_BYTES:
            raise DamageError(f"the file ends inside the header of a record in {where}")
        length, length_crc = _HEADER.unpack(header)
        # Checked before the length is trusted: a flipped bit here may ask for exabytes.
        if masked_crc(header[:8]) != length_crc:
            raise DamageError(f"the length of a record does not match its checksum in {where}")
        rest = file.read(length + FOOTER_BYTES)
        if len(rest) < length + FOOTER_BYTES:
            raise DamageError(f"the file ends inside a record of {length} bytes in {where}")
        yield offset, unframe(header + rest, where)
        offset += length + FRAME_BYTES
