"""tf.train.Example without TensorFlow, with deterministic bytes.

The protobuf package does not specify the order of a map field, so equal examples may serialize to
different bytes; here features are always written in the order of the schema.
Wire format: protobuf.dev/programming-guides/encoding; messages: tensorflow/core/example.

An example is written in two steps, because some features (a class label) are known only after all
records are: `encode_features` returns the entries of some features, entries can be concatenated,
and `finish_example` wraps them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foundation.errors import DamageError, UsageError
from shard_format.feature_values import flat_numbers, to_stored
from shard_format.schema import Feature, Schema
from shard_format.varints import pack_varints, unpack_varints

Numbers = npt.NDArray[Any]
Value = bytes | str | int | float | Sequence[bytes] | Sequence[int] | Sequence[float] | Numbers
Values = list[bytes] | list[int] | list[float]

# (field number << 3) | wire type; wire type 2 is "length-delimited", 0 varint, 5 four bytes.
FIELD_1, FIELD_2, _FIELD_3 = 0x0A, 0x12, 0x1A
STORAGE_TAG = {"bytes_list": FIELD_1, "float_list": FIELD_2, "int64_list": _FIELD_3}
_STORAGE_NAME = {tag: name for name, tag in STORAGE_TAG.items()}
_UINT64 = 1 << 64
# For fewer numbers plain Python is faster than numpy.
_FEW = 16


def encode_example(schema: Schema, values: Mapping[str, Value]) -> bytes:
    """A serialized tf.train.Example that holds every feature of the schema.

    Raises:
        UsageError: A feature is missing, or its value does not fit its kind.
    """
    return finish_example(encode_features(schema.features, values))


def encode_features(features: Sequence[Feature], values: Mapping[str, Value]) -> bytes:
    """The map entries of some features, ready to be concatenated with others.

    Raises:
        UsageError: A feature is missing, or its value does not fit its kind.
    """
    entries = []
    for feature in features:
        if feature.name not in values:
            raise UsageError(
                f"An example has no value for feature {feature.name!r}, only for "
                f"{', '.join(sorted(values)) or 'none'}. Add it to the record type."
            )
        value = values[feature.name]
        if feature.is_flat:
            entries.append(_encode_entry(feature, value))
            continue
        parts = zip(feature.stored, to_stored(feature, value), strict=True)
        entries += [_encode_entry(part, own) for part, own in parts]
    return b"".join(entries)


def finish_example(entries: bytes) -> bytes:
    """The tf.train.Example whose features are these entries."""
    return delimited(FIELD_1, entries)


def _encode_entry(feature: Feature, value: Value) -> bytes:
    if feature.storage == "bytes_list" and isinstance(value, bytes | str):
        return _encode_bytes(feature.name, value if isinstance(value, bytes) else value.encode())
    items = [value] if isinstance(value, bytes | str | int | float) else value
    if isinstance(items, np.ndarray):
        items = flat_numbers(items)
    try:
        stored = _encode_list(feature.storage, items)
    except (TypeError, AttributeError, struct.error) as error:
        raise UsageError(
            f"Feature {feature.name!r} is of kind {feature.kind}, but its value is a "
            f"{type(value).__name__} ({error}). Correct the record type."
        ) from error
    name = delimited(FIELD_1, feature.name.encode())
    return delimited(FIELD_1, name + delimited(FIELD_2, stored))


def _encode_bytes(name: str, value: bytes) -> bytes:
    """One value, such as an image, without copying it at every level."""
    tail = bytes((FIELD_1,)) + _varint(len(value))  # the value in its bytes_list
    list_size = len(tail) + len(value)
    tail = bytes((STORAGE_TAG["bytes_list"],)) + _varint(list_size) + tail
    feature_size = len(tail) + len(value)
    tail = bytes((FIELD_2,)) + _varint(feature_size) + tail
    head = delimited(FIELD_1, name.encode()) + tail
    return b"".join((bytes((FIELD_1,)), _varint(len(head) + len(value)), head, value))


def _encode_list(storage: str, items: Sequence[object] | Numbers) -> bytes:
    if storage == "bytes_list":
        content = b"".join(
            delimited(FIELD_1, item.encode() if isinstance(item, str) else _checked_bytes(item))
            for item in items
        )
    elif not len(items):
        content = b""  # an empty packed field is not written at all
    elif storage == "float_list":
        content = delimited(FIELD_1, _encode_floats(items))
    else:
        content = delimited(FIELD_1, _encode_numbers(items))
    return delimited(STORAGE_TAG[storage], content)


def _encode_floats(items: Sequence[object] | Numbers) -> bytes:
    if isinstance(items, np.ndarray):
        return items.astype("<f4").tobytes()
    return struct.pack(f"<{len(items)}f", *items)


def _encode_numbers(items: Sequence[object] | Numbers) -> bytes:
    if isinstance(items, np.ndarray) or len(items) >= _FEW:
        numbers = np.asarray(items)
        if numbers.dtype == np.int64 and numbers.ndim == 1:
            return pack_varints(numbers)
    # Also for a list with other values: the message names the first of them.
    return b"".join(_varint(_checked_int64(item)) for item in items)


def _checked_bytes(item: object) -> bytes:
    if not isinstance(item, bytes):
        raise TypeError(f"{item!r} is neither bytes nor str")
    return item


def _checked_int64(item: object) -> int:
    if not isinstance(item, int) or not -(1 << 63) <= item < (1 << 63):
        raise TypeError(f"{item!r} is not a 64-bit integer")
    return item % _UINT64  # two's complement, as protobuf writes negative numbers


def delimited(tag: int, content: bytes) -> bytes:
    """A field of a message: its tag, the length of its content, and the content."""
    return bytes((tag,)) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def decode_example(serialized: bytes) -> dict[str, Values]:
    """Every feature of a serialized tf.train.Example as a list of bytes, int or float.

    Any writer's bytes are read: packed or not, in any order; of a repeated key the last entry
    wins. A feature without a value is an empty list.

    Raises:
        DamageError: The bytes are not a tf.train.Example.
    """
    features: dict[str, Values] = {}
    try:
        for tag, content in message_fields(serialized):
            if tag != FIELD_1:
                continue
            for entry_tag, entry in message_fields(content_of(content)):
                if entry_tag == FIELD_1:
                    name, values = _decode_entry(content_of(entry))
                    features[name] = values
    except (IndexError, ValueError, struct.error) as error:
        raise DamageError(
            f"A record of {len(serialized)} bytes is not a tf.train.Example ({error}). Run "
            "'shardmill verify' on the set."
        ) from error
    return features


def _decode_entry(entry: bytes) -> tuple[str, Values]:
    name = ""
    values: Values = []
    for tag, content in message_fields(entry):
        if tag == FIELD_1:
            name = content_of(content).decode()
        elif tag == FIELD_2:
            for list_tag, stored in message_fields(content_of(content)):
                if list_tag in _STORAGE_NAME:
                    values = _decode_list(_STORAGE_NAME[list_tag], content_of(stored))
    return name, values


def _decode_list(storage: str, stored: bytes) -> Values:
    if storage == "bytes_list":
        return [content_of(content) for tag, content in message_fields(stored) if tag == FIELD_1]
    if storage == "float_list":
        packed = b"".join(content_of(content) for _, content in message_fields(stored))
        return list(struct.unpack(f"<{len(packed) // 4}f", packed))
    numbers: list[int] = []
    for _, content in message_fields(stored):
        if isinstance(content, int):
            numbers.append(_signed(content))
            continue
        numbers += _decode_numbers(content)
    return numbers


def _decode_numbers(packed: bytes) -> list[int]:
    if len(packed) >= _FEW:
        return unpack_varints(packed).tolist()
    numbers, position = [], 0
    while position < len(packed):
        number, position = read_varint(packed, position)
        numbers.append(_signed(number))
    return numbers


def _signed(number: int) -> int:
    number %= _UINT64  # protobuf drops bits beyond 64
    return number - _UINT64 if number >= 1 << 63 else number


def content_of(value: bytes | int) -> bytes:
    """The content of a field that holds a message or bytes.

    Raises:
        ValueError: It holds a number.
    """
    if isinstance(value, int):
        raise ValueError("a number in the place of a message")
    return value


def message_fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yields the tag and the content of every field of a protobuf message.

    Raises:
        ValueError: The message is damaged.
        IndexError: It ends inside a number.
    """
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        wire_type = tag & 7
        if wire_type == 0:
            number, position = read_varint(message, position)
            yield tag, number
            continue
        if wire_type == 2:
            size, position = read_varint(message, position)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"wire type {wire_type} is unknown")
        if position + size > len(message):
            raise ValueError("a field is longer than the bytes around it")
        # A float that is not packed (wire type 5) must still be found under its list's tag.
        yield tag, message[position : position + size]
        position += size


def read_varint(message: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at a position, and the position behind it.

    Raises:
        ValueError: It is longer than 64 bits.
        IndexError: The message ends inside it.
    """
    number = shift = 0
    while True:
        byte = message[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")
