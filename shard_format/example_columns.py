"""The features of many examples at once, from columns: the bytes of `example.encode_features`.

Before the value of a feature is its head: tags, name, and four lengths as varints, each of which
covers what is behind it. numpy computes the heads of a whole batch, and Arrow joins them with the
values in one pass. Features that may have several values are encoded one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foundation.errors import UsageError
from shard_format.example import FIELD_1, FIELD_2, STORAGE_TAG, Value, delimited, encode_features
from shard_format.schema import Feature

Sizes = npt.NDArray[np.int64]
_MORE = 0x80
_NOTHING = pa.scalar(b"", pa.large_binary())


def encode_columns(
    features: Sequence[Feature], columns: Mapping[str, pa.Array | Sequence[Any]], records: int
) -> pa.LargeBinaryArray:
    """[records] large_binary: the map entries of some features of each record.

    Args:
        features: In the order of the schema.
        columns: [records] each, by the name of a feature: Arrow arrays of text or bytes, or values
            as `encode_features` takes them.
        records: Their number.

    Raises:
        UsageError: A feature is missing, or a value does not fit its kind.
    """
    pieces: list[pa.Array] = []
    for feature in features:
        values = columns.get(feature.name)
        if values is None:
            raise UsageError(
                f"Examples have no values for feature {feature.name!r}, only for "
                f"{', '.join(sorted(columns)) or 'none'}. Add it to the record type."
            )
        pieces += _entries(feature, values)
    if not pieces:
        return pa.array([b""] * records, pa.large_binary())
    return pc.binary_join_element_wise(*pieces, _NOTHING)


def finish_columns(entries: pa.LargeBinaryArray, late: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """[n] large_binary: the tf.train.Example with the entries of each record, and those of `late`.

    Args:
        entries: [n] large_binary, map entries as `encode_columns` returns them.
        late: [n] large_binary, further ones.
    """
    sizes = pc.add(pc.binary_length(entries), pc.binary_length(late))
    head = heads(bytes((FIELD_1,)), np.asarray(sizes, np.int64))
    return pc.binary_join_element_wise(head, entries, late, _NOTHING)


def _entries(feature: Feature, values: pa.Array | Sequence[Any]) -> list[pa.Array]:
    """Columns that make the entries of a feature when they are joined."""
    single = _single(feature, values)
    if single is not None:
        sizes = np.asarray(pc.binary_length(single), np.int64)
        return [heads(*_head(feature, sizes)), single]
    numbers = _numbers(feature, values)
    if numbers is None:
        return [pa.array(_one_by_one(feature, values), pa.large_binary())]
    if numbers.dtype == np.float32:
        rows = numbers.astype("<f4").view(np.uint8).reshape(-1, numbers.itemsize)
        sizes = np.full(len(rows), numbers.itemsize)
        return [heads(*_head(feature, sizes), rows)]
    return [heads(*_head(feature, varint_sizes(numbers)), numbers)]


def _numbers(feature: Feature, values: Sequence[Any]) -> npt.NDArray[Any] | None:
    """[n] int64 from 0, or float32, if each record has one such number; else None."""
    if feature.shape or not feature.is_flat:
        return None
    kinds = set(map(type, values))
    if feature.storage == "float_list" and kinds <= {float}:
        with np.errstate(over="ignore"):  # as struct has it, where values are not checked
            return np.array(values, np.float32)
    if feature.storage == "int64_list" and kinds <= {int} and values:
        if 0 <= min(values) and max(values) < 1 << 63:
            return np.array(values, np.int64)
    return None


def _single(feature: Feature, values: pa.Array | Sequence[Any]) -> pa.LargeBinaryArray | None:
    """The values as they are stored, if each record has one; None if that is not known."""
    if isinstance(values, pa.Array):
        return values.cast(pa.large_binary())
    kinds = set(map(type, values))
    if feature.storage == "bytes_list" and kinds <= {bytes}:
        return pa.array(values, pa.large_binary())
    if feature.storage == "bytes_list" and kinds <= {str}:
        return pa.array(values, pa.large_string()).cast(pa.large_binary())
    return None


def _one_by_one(feature: Feature, values: Sequence[Value]) -> list[bytes]:
    encoded: dict[Any, bytes] = {}  # numbers repeat: sides of images, years
    entries = []
    for value in values:
        entry = encoded.get(value) if type(value) is int else None
        if entry is None:
            entry = encode_features([feature], {feature.name: value})
            if type(value) is int:
                encoded[value] = entry
        entries.append(entry)
    return entries


def _head(feature: Feature, sizes: Sizes) -> tuple[bytes | Sizes, ...]:
    """What is before a value of so many bytes, for `heads`."""
    stored = 1 + varint_sizes(sizes) + sizes  # the value in its list
    listed = 1 + varint_sizes(stored) + stored  # the list in its Feature
    name = delimited(FIELD_1, feature.name.encode())
    entry = len(name) + 1 + varint_sizes(listed) + listed
    tags = (bytes((tag,)) for tag in (FIELD_1, FIELD_2, STORAGE_TAG[feature.storage], FIELD_1))
    first, second, third, last = tags
    return first, entry, name + second, listed, third, stored, last, sizes


def heads(*parts: bytes | npt.NDArray[Any]) -> pa.LargeBinaryArray:
    """[n] large_binary: constants, varints of [n] numbers in [0, 2 ** 63), and [n, size] bytes."""
    records = next(len(part) for part in parts if isinstance(part, np.ndarray))
    blocks: list[npt.NDArray[np.uint8]] = []
    written: list[npt.NDArray[np.bool_]] = []
    for part in parts:
        if isinstance(part, bytes):
            blocks.append(np.tile(np.frombuffer(part, np.uint8), (records, 1)))
            written.append(np.ones((records, len(part)), bool))
            continue
        if part.ndim == 2:
            blocks.append(part)
            written.append(np.ones(part.shape, bool))
            continue
        count = varint_sizes(part)
        places = np.arange(int(count.max(initial=1)))
        groups = (part[:, None] >> (7 * places)) & 0x7F
        more = places < count[:, None] - 1
        blocks.append(np.where(more, groups | _MORE, groups).astype(np.uint8))
        written.append(places < count[:, None])
    mask = np.concatenate(written, axis=1)
    data = np.concatenate(blocks, axis=1)[mask]
    return large_binary(mask.sum(axis=1), data)


def large_binary(sizes: Sizes, data: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """[n] large_binary of so many bytes each, one behind the other in a buffer."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(sizes), buffers)


def varint_sizes(numbers: Sizes) -> Sizes:
    """[n] int64, the bytes of the varints of numbers in [0, 2 ** 63)."""
    sizes = np.ones(len(numbers), np.int64)
    bound = _MORE
    while bound <= int(numbers.max(initial=0)):
        sizes += numbers >= bound
        bound <<= 7
    return sizes
