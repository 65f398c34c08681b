"""Some features of many examples at once, as columns: the inverse of `example_columns`.

The examples of a set are laid out alike: the same features in the same order, each in one list. So
numpy reads the lengths of all examples at a time, and values stay where they are. An example that
is laid out otherwise, as other programs may write it, is encoded anew.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from foundation.errors import DamageError, UsageError
from shard_format.example import (
    FIELD_1,
    FIELD_2,
    STORAGE_TAG,
    content_of,
    decode_example,
    delimited,
    encode_features,
    finish_example,
    message_fields,
    read_varint,
)
from shard_format.schema import Feature
from shard_format.varints import last_bytes, unpack_varints

Bytes = npt.NDArray[np.uint8]
Int64Array = npt.NDArray[np.int64]
_MORE = 0x80
_LENGTH_BITS = 42  # more than any length has
_FLOAT_BYTES = 4
_LONG_BYTES = 64  # of ranges: each is copied as such, which is faster than byte by byte


class UnreadableExampleError(ValueError):
    """An example does not have the features of its schema.

    Attributes:
        number: Number of the example among those that were parsed.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


@dataclasses.dataclass(frozen=True)
class Examples:
    """Serialized examples in a buffer, in any order.

    Attributes:
        data: [size] uint8.
        begins: [n] int64, first byte of each.
        ends: [n] int64, one behind its last byte.
    """

    data: Bytes
    begins: Int64Array
    ends: Int64Array

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, number: int) -> memoryview:
        """The bytes of one, without a copy."""
        return self.data[self.begins[number] : self.ends[number]].data

    def array(self, number: int) -> Bytes:
        """[size] uint8, the same."""
        return self.data[self.begins[number] : self.ends[number]]

    def __iter__(self) -> Iterator[memoryview]:
        data = self.data.data
        for begin, end in zip(self.begins.tolist(), self.ends.tolist(), strict=True):
            yield data[begin:end]

    def take(self, numbers: npt.NDArray[Any] | slice) -> Examples:
        """Some of them, in the order of their numbers [m], by a mask [n] bool, or a slice."""
        return Examples(self.data, self.begins[numbers], self.ends[numbers])

    def replaced(self, numbers: Int64Array, examples: Sequence[bytes]) -> Examples:
        """All of them, but others at some numbers [m]."""
        if not len(numbers):
            return self
        splits = _splits(np.array([len(one) for one in examples])) + len(self.data)
        begins, ends = self.begins.copy(), self.ends.copy()
        begins[numbers], ends[numbers] = splits[:-1], splits[1:]
        return Examples(
            np.concatenate([self.data, np.frombuffer(b"".join(examples), np.uint8)]), begins, ends
        )


def one_example(serialized: bytes) -> Examples:
    """One example."""
    ends = np.array([len(serialized)])
    return Examples(np.frombuffer(serialized, np.uint8), ends - len(serialized), ends)


def join_examples(parts: Iterable[Examples]) -> Examples:
    """Examples in one buffer, which are in memory about once meanwhile."""
    data = bytearray()
    begins, ends = [], []
    for part in parts:
        begins.append(part.begins + len(data))
        ends.append(part.ends + len(data))
        data += part.data.data
    return Examples(np.frombuffer(data, np.uint8), np.concatenate(begins), np.concatenate(ends))


# A value of bytes is a part of the buffer too.
ByteValues = Examples


@dataclasses.dataclass(frozen=True)
class NumberLists:
    """Any number of numbers of each example.

    Attributes:
        values: [total] int64 or float32, those of the first example first.
        splits: [n + 1] int64; those of example i are [splits[i], splits[i + 1]).
    """

    values: npt.NDArray[Any]
    splits: Int64Array

    def __len__(self) -> int:
        return len(self.splits) - 1

    def __getitem__(self, number: int) -> npt.NDArray[Any]:
        """The numbers of one example, without a copy."""
        return self.values[self.splits[number] : self.splits[number + 1]]

    def take(self, numbers: npt.NDArray[Any] | slice) -> NumberLists:
        """Those of some examples: in the order of numbers [m], by a mask [n] bool, or a slice."""
        begins, ends = self.splits[:-1][numbers], self.splits[1:][numbers]
        if isinstance(numbers, slice) and numbers.step in (None, 1) and len(begins):
            own = self.values[begins[0] : ends[-1]].copy()  # else it would keep all in memory
            return NumberLists(own, _splits(ends - begins))
        return NumberLists(self.values[_ranges(begins, ends)], _splits(ends - begins))

    def cut(self, limit: int) -> NumberLists:
        """The first numbers of each example, at most that many."""
        begins, sizes = self.splits[:-1], np.diff(self.splits)
        if not (sizes > limit).any():
            return self
        sizes = np.minimum(sizes, limit)
        return NumberLists(self.values[_ranges(begins, begins + sizes)], _splits(sizes))

    def dense(self, width: int, fill: int) -> npt.NDArray[Any]:
        """[n, width]: the numbers of each example, then `fill`; none has more than `width`."""
        sizes = np.diff(self.splits)
        values = np.full((len(sizes), width), fill, self.values.dtype)
        values[np.arange(width) < sizes[:, None]] = self.values
        return values


@dataclasses.dataclass(frozen=True)
class ByteLists:
    """Any number of values of bytes of each example.

    Attributes:
        values: [total], those of the first example first.
        splits: [n + 1] int64; those of example i are [splits[i], splits[i + 1]).
    """

    values: ByteValues
    splits: Int64Array

    def __len__(self) -> int:
        return len(self.splits) - 1

    def take(self, numbers: npt.NDArray[Any] | slice) -> ByteLists:
        """Those of some examples, as `NumberLists.take`."""
        begins, ends = self.splits[:-1][numbers], self.splits[1:][numbers]
        return ByteLists(self.values.take(_ranges(begins, ends)), _splits(ends - begins))


Column = ByteValues | ByteLists | NumberLists


def parse_examples(examples: Examples, features: Sequence[Feature]) -> dict[str, Column]:
    """The values of some features of each example.

    Args:
        examples: At least one.
        features: Those to read, each flat. One without a shape has one value, one of a fixed shape
            as many as that holds.

    Returns:
        By the name of the feature a column [n]: where a value or several of bytes are, or the
        numbers.

    Raises:
        UnreadableExampleError: An example is damaged, lacks a feature, or has another number of
            values.
    """
    parsed, alike = _parse_alike(examples, features, _layout_of(bytes(examples[0])))
    if not alike.all():
        others = np.flatnonzero(~alike)
        layout = tuple((one.name.encode(), STORAGE_TAG[one.storage]) for one in features)
        anew, _ = _parse_alike(_encoded_anew(examples, others, features), features, layout)
        order = np.argsort(np.concatenate([np.flatnonzero(alike), others]))
        parsed = {
            name: join_columns([column, anew[name]]).take(order) for name, column in parsed.items()
        }
    for feature in features:
        _check_counts(feature, parsed[feature.name])
    return parsed


def _is_single(feature: Feature) -> bool:
    """Whether an example has one value of bytes."""
    return feature.storage == "bytes_list" and not feature.dims


def _encoded_anew(examples: Examples, numbers: Int64Array, features: Sequence[Feature]) -> Examples:
    """Some features of some examples, as `encode_features` writes them.

    Raises:
        UnreadableExampleError: An example is damaged, lacks a feature, or has other values.
    """
    encoded = []
    for number in numbers.tolist():
        try:
            values = decode_example(bytes(examples[number]))
            for feature in features:
                if _is_single(feature) and len(values.get(feature.name, "1")) != 1:
                    count = len(values[feature.name])
                    raise UsageError(f"feature {feature.name!r} has {count} values, not 1")
            encoded.append(finish_example(encode_features(features, values)))
        except (DamageError, UsageError) as error:
            raise UnreadableExampleError(number, str(error)) from error
    ends = np.cumsum([len(one) for one in encoded])
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return Examples(data, np.concatenate([[0], ends[:-1]]), ends)


def _check_counts(feature: Feature, column: Column) -> None:
    """Checks that numbers are as many as a feature has.

    Raises:
        UnreadableExampleError: Those of an example are not.
    """
    if isinstance(column, ByteValues):
        return
    shape = feature.dims if feature.storage == "bytes_list" else feature.shape
    counts, row = np.diff(column.splits), math.prod(abs(size) for size in shape)
    varies = -1 in shape
    wrong = np.flatnonzero(counts % row if varies else counts != row)
    if len(wrong):
        expected = f"a multiple of {row}" if varies else str(row)
        problem = f"feature {feature.name!r} has {counts[wrong[0]]} values, not {expected}"
        raise UnreadableExampleError(int(wrong[0]), problem)


def join_columns(columns: Sequence[Column]) -> Column:
    """Columns of the same feature as one, of the examples of the first one first."""
    if len(columns) == 1:
        return columns[0]
    if isinstance(columns[0], NumberLists):
        lists = [one for one in columns if isinstance(one, NumberLists)]
        counts = np.concatenate([np.diff(one.splits) for one in lists])
        return NumberLists(np.concatenate([one.values for one in lists]), _splits(counts))
    if isinstance(columns[0], ByteLists):
        listed = [one for one in columns if isinstance(one, ByteLists)]
        counts = np.concatenate([np.diff(one.splits) for one in listed])
        whole = join_columns([one.values for one in listed])
        return ByteLists(cast(ByteValues, whole), _splits(counts))
    values = [one for one in columns if isinstance(one, ByteValues)]
    starts = _splits(np.array([len(one.data) for one in values]))
    return ByteValues(
        np.concatenate([one.data for one in values]),
        np.concatenate(
            [one.begins + start for one, start in zip(values, starts[:-1], strict=True)]
        ),
        np.concatenate([one.ends + start for one, start in zip(values, starts[:-1], strict=True)]),
    )


# Of each feature its name and the tag of its list.
_Layout = tuple[tuple[bytes, int], ...]


def _layout_of(serialized: bytes) -> _Layout:
    """The features of an example in their order, as far as it can be read."""
    layout: list[tuple[bytes, int]] = []
    try:
        for _, features in message_fields(serialized):
            for _, entry in message_fields(content_of(features)):
                parts = dict(message_fields(content_of(entry)))
                tag, _ = next(message_fields(content_of(parts[FIELD_2])))
                layout.append((content_of(parts[FIELD_1]), tag))
    except (IndexError, KeyError, StopIteration, ValueError):
        pass  # no example has this layout, so each is read by itself
    return tuple(layout)


class _Cursor:
    """A place in each of many messages.

    Args:
        data: [size] uint8, the messages.
        at: [n] int64, where each begins.

    Attributes:
        at: [n] int64, the place.
        valid: [n] bool, whether all was what was expected so far.
    """

    def __init__(self, data: Bytes, at: Int64Array) -> None:
        self._data, self.at, self.valid = data, at, np.ones(len(at), bool)

    def expect(self, constant: bytes) -> None:
        """Goes on behind some bytes that all messages have here."""
        for place, byte in enumerate(constant):
            self.valid &= self._data.take(self.at + place, mode="clip") == byte
        self.at = self.at + len(constant)

    def varint(self) -> Int64Array:
        """Reads a number [n], and goes on behind it."""
        numbers, shift = np.zeros(len(self.at), np.int64), 0
        more = np.ones(len(self.at), bool)
        while more.any():
            if shift >= _LENGTH_BITS:  # no length of a message
                self.valid &= ~more
                break
            byte = self._data.take(self.at, mode="clip")
            numbers |= np.where(more, (byte & 0x7F).astype(np.int64) << shift, 0)
            self.at = self.at + more
            more = more & (byte >= _MORE)
            shift += 7
        return numbers

    def end_of_field(self, tag: int) -> Int64Array:
        """Goes to the content of a field, and returns where it ends [n]."""
        self.expect(bytes((tag,)))
        size = self.varint()
        return self.at + size


def _parse_alike(
    examples: Examples, features: Sequence[Feature], layout: _Layout
) -> tuple[dict[str, Column], npt.NDArray[np.bool_]]:
    """The columns of the examples that have a layout, and which these are: [n] bool."""
    wanted = {feature.name.encode(): feature for feature in features}
    places: dict[str, tuple[Int64Array, Int64Array]] = {}
    cursor = _Cursor(examples.data, examples.begins)
    cursor.valid &= cursor.end_of_field(FIELD_1) == examples.ends
    for name, tag in layout:
        end = cursor.end_of_field(FIELD_1)
        feature = wanted.pop(name, None)
        if feature is not None:
            cursor.valid &= tag == STORAGE_TAG[feature.storage]
            cursor.expect(delimited(FIELD_1, name))
            cursor.valid &= cursor.end_of_field(FIELD_2) == end
            cursor.valid &= cursor.end_of_field(tag) == end
            value = _Cursor(examples.data, cursor.at)
            whole = value.end_of_field(FIELD_1) == end
            is_list = feature.storage == "bytes_list" and bool(feature.dims)
            if feature.storage == "float_list":
                whole &= (end - value.at) % _FLOAT_BYTES == 0
            elif feature.storage == "int64_list":
                whole &= examples.data.take(end - 1, mode="clip") < _MORE
            # Of numbers there may be none: the list is empty then.
            none = (cursor.at == end) & (feature.storage != "bytes_list")
            cursor.valid &= is_list | (whole & value.valid) | none
            at = cursor.at if is_list else np.where(none, end, value.at)
            places[feature.name] = at, end
        cursor.at = end
    alike = cursor.valid & (cursor.at == examples.ends) & (not wanted)
    if wanted:
        places |= {feature.name: (examples.begins,) * 2 for feature in wanted.values()}
    try:
        return {
            one.name: _column(one, examples.data, *(each[alike] for each in places[one.name]))
            for one in features
        }, alike
    except ValueError:  # a number is too long; which, is found by reading each by itself
        return _parse_alike(examples, features, ())


def _column(feature: Feature, data: Bytes, begins: Int64Array, ends: Int64Array) -> Column:
    """The column of a feature, from the places of packed numbers or of single values of bytes."""
    if feature.storage == "bytes_list":
        if feature.dims:
            return _byte_lists(data, begins, ends)
        return ByteValues(data, begins, ends)
    packed, splits = _gathered(data, begins, ends), _splits(ends - begins)
    if feature.storage == "float_list":
        return NumberLists(packed.view("<f4"), splits // _FLOAT_BYTES)
    last = last_bytes(packed)
    return NumberLists(unpack_varints(packed, last), np.searchsorted(last, splits))


def _byte_lists(data: Bytes, begins: Int64Array, ends: Int64Array) -> ByteLists:
    """The values of lists of bytes, each of which is a field of its own.

    Raises:
        ValueError: One is damaged.
    """
    view = data.data
    firsts: list[int] = []
    lasts: list[int] = []
    counts = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        before, at = len(firsts), begin
        while at < end:
            if view[at] != FIELD_1 or at + 1 == end:
                raise ValueError("a list has something else than values")
            size, at = read_varint(view, at + 1)
            if at + size > end:
                raise ValueError("a value is longer than its list")
            firsts.append(at)
            at += size
            lasts.append(at)
        counts.append(len(firsts) - before)
    places = (np.array(some, np.int64) for some in (firsts, lasts))
    return ByteLists(ByteValues(data, *places), _splits(np.array(counts, np.int64)))


def _gathered(data: Bytes, begins: Int64Array, ends: Int64Array) -> Bytes:
    """The bytes of all ranges [begin, end), one range behind the other."""
    if (ends - begins).sum() <= _LONG_BYTES * len(begins):
        return data[_ranges(begins, ends)]
    ranges = zip(begins.tolist(), ends.tolist(), strict=True)
    return np.concatenate([data[begin:end] for begin, end in ranges])


def _ranges(begins: Int64Array, ends: Int64Array) -> Int64Array:
    """[total] int64: the numbers of all ranges [begin, end), one range behind the other."""
    sizes = ends - begins
    splits = _splits(sizes)
    return np.arange(splits[-1]) + np.repeat(begins - splits[:-1], sizes)


def _splits(sizes: Int64Array) -> Int64Array:
    """[n + 1] int64: where each of so many begins, and the end of the last."""
    splits = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=splits[1:])
    return splits
