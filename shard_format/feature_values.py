"""Values of features: as users have them, as an example stores them, and back.

What an example has is flat: bytes, or numbers of int64 and float32, one or any number of them. A
tensor is its numbers in C order, or its bytes (little-endian); a list of lists is all their values,
and the length of each list. The names of such parts are those of TFDS (`Feature.stored`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from shard_format.features.base import shown
from shard_format.features.tensor import fits
from shard_format.schema import Feature


def checked(feature: Feature, value: Any) -> Any:
    """A value of a user, as `from_stored` returns it: see there.

    Args:
        feature: Its feature.
        value: Anything; of lists and tensors nested lists, or arrays of NumPy.

    Raises:
        ValueError: It is no value of the feature; says what must be, and what there is.
    """
    try:
        if not feature.shape:
            return feature.type.checked(value, ())
        if feature.ragged:
            return [_checked(feature, row, feature.shape[1:]) for row in _listed(value)]
        return _checked(feature, value, feature.shape)
    except (ValueError, TypeError) as error:
        raise ValueError(f"feature {feature.name!r} must be {feature.form}: {error}") from error


def _checked(feature: Feature, value: Any, shape: Sequence[int]) -> Any:
    own = len(shape) - len(feature.type.value_shape)  # dimensions around one value
    if feature.type.is_number or not own:
        return feature.type.checked(value, shape)
    items = [feature.type.checked(item, shape[own:]) for item in _listed(value)]
    if shape[0] not in (-1, len(items)):
        raise ValueError(f"{shown(value)} has {len(items)} values, not {shape[0]}")
    return items


def _listed(value: Any) -> Sequence[Any]:
    unordered = isinstance(value, str | bytes | Set | Mapping)
    if unordered or not hasattr(value, "__len__"):
        raise ValueError(f"{shown(value)} is not a list")
    return value


def to_stored(feature: Feature, value: Any) -> tuple[Any, ...]:
    """The value of each of `feature.stored`, of a value as `checked` returns it."""
    if feature.ragged:
        lengths = [len(row) for row in value]
        if not feature.type.is_number:
            return [item for row in value for item in row], lengths
        rows = [np.asarray(row, feature.type.dtype).ravel() for row in value]
        return flat_numbers(np.concatenate(rows) if rows else np.zeros(0)), lengths
    if feature.is_tensor_bytes:
        array = np.asarray(value, np.dtype(feature.type.dtype).newbyteorder("<"))
        whole = array.tobytes()
        return (list(array.shape), whole) if len(feature.stored) > 1 else (whole,)
    if feature.type.is_number and feature.shape:
        return (flat_numbers(np.asarray(value)),)
    return (int(value) if feature.kind == "bool" else value,)


def flat_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[n] int64 or float32, as tf.train.Feature has numbers."""
    return values.ravel().astype(np.float32 if values.dtype.kind == "f" else np.int64, copy=False)


def from_stored(feature: Feature, parts: Sequence[Any]) -> Any:
    """The inverse of `to_stored`.

    Args:
        feature: The feature.
        parts: A list or an array of the values of each of `feature.stored`.

    Returns:
        A number, a string or bytes without `dims`; an array of the feature's dtype and shape; a
        list of strings or bytes; a list of these where the feature is ragged.

    Raises:
        ValueError: They are no value of the feature; says what there is.
    """
    if feature.ragged:
        return _split(feature, *parts)
    if feature.is_tensor_bytes:
        return _from_bytes(feature, parts)
    (values,) = parts
    if feature.type.is_number and feature.shape:
        return _array(feature, values, feature.shape)
    decoded = [_decoded(feature, one) for one in values]
    if feature.dims:
        if feature.dims[0] not in (-1, len(decoded)):
            raise ValueError(f"{len(decoded)} values")
        return decoded
    if len(decoded) != 1:
        raise ValueError(f"{len(decoded)} values")
    return decoded[0]


def _decoded(feature: Feature, value: Any) -> Any:
    if feature.type.is_number:
        return np.dtype(feature.type.dtype).type(value).item()
    if not isinstance(value, bytes | memoryview):
        raise ValueError(type(value).__name__)
    return bytes(value).decode() if feature.kind == "text" else bytes(value)


def _array(feature: Feature, values: Any, shape: Sequence[int]) -> npt.NDArray[Any]:
    try:
        return np.asarray(values).astype(feature.type.dtype).reshape(shape)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{len(values)} values") from error


def _from_bytes(feature: Feature, parts: Sequence[Any]) -> Any:
    data = parts[-1]
    if len(data) != 1 or not isinstance(data[0], bytes | memoryview):
        raise ValueError(f"{len(data)} values")
    kind = np.dtype(feature.type.dtype).newbyteorder("<")
    shape = [int(size) for size in parts[0]] if len(parts) > 1 else feature.shape
    try:
        if len(parts) > 1 and not fits(shape, feature.shape):
            raise ValueError
        array = np.frombuffer(data[0], kind).reshape(shape)
    except ValueError as error:
        raise ValueError(f"{len(data[0])} bytes") from error
    return array.astype(feature.type.dtype) if feature.shape else array.item()


def _split(feature: Feature, values: Any, lengths: Any) -> list[Any]:
    """The lists of a list of lists."""
    if feature.type.is_number:
        values = _array(feature, values, (-1, *feature.shape[2:]))
    else:
        values = [_decoded(feature, one) for one in values]
    ends = np.cumsum(np.asarray(lengths, np.int64))
    if min(lengths, default=0) < 0 or ends[-1:].sum() != len(values):
        raise ValueError(f"{len(values)} values in lists of {sum(lengths)}")
    return [values[end - size : end] for end, size in zip(ends.tolist(), lengths, strict=True)]
