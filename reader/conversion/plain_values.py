"""Values of features as other formats have them: flat columns, trees, and what JSON has."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from reader.access.examples import Values
from reader.conversion.base import CHECKSUM, Record
from shard_format import Feature, Schema

NUMBER, TEXT, BYTES, ARRAY, JSON = "number", "text", "bytes", "array", "json"


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a format that has numbers, texts, bytes and arrays, but no lists of the others.

    Attributes:
        name: Name of the column.
        kind: NUMBER, TEXT, BYTES, ARRAY, or JSON for a text of JSON.
        dtype: Element type in NumPy of a number or an array.
        shape: Shape of an array; -1 for a dimension that varies.
    """

    name: str
    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()


def columns_of(schema: Schema) -> list[Column]:
    """The columns for the features of a set.

    A label has a second column with the name of its class, several images or bytes are one value
    and the length of each, and lists of texts and lists of lists are JSON.
    """
    columns: list[Column] = []
    for feature in schema.features:
        columns += _columns(feature)
    return [*columns, Column(CHECKSUM, NUMBER, "int64")]


def _columns(feature: Feature) -> Iterator[Column]:
    name, is_number = feature.name, feature.type.is_number
    if feature.ragged or (feature.kind == "text" and feature.dims):
        yield Column(name, JSON)
    elif feature.kind == "text":
        yield Column(name, TEXT)
    elif not is_number:
        yield Column(name, BYTES)
        if feature.dims:
            yield Column(lengths_name(name), ARRAY, "int64", (-1,))
    elif feature.shape:
        yield Column(name, ARRAY, feature.type.dtype, feature.shape)
    else:
        yield Column(name, NUMBER, feature.type.dtype)
        if feature.kind == "class_label":
            yield Column(class_name_of(name), TEXT)


def lengths_name(name: str) -> str:
    """Name of the column with the length of each of several values."""
    return f"{name}/lengths"


def class_name_of(name: str) -> str:
    """Name of the column with the name of a class."""
    return f"{name}_name"


def flat_values(schema: Schema, record: Record) -> dict[str, Any]:
    """The values of `columns_of` for a record."""
    flat: dict[str, Any] = {}
    for feature in schema.features:
        name, value = feature.name, value_at(record.values, schema.paths[feature.name])
        if feature.ragged or (feature.kind == "text" and feature.dims):
            flat[name] = json.dumps(plain(value), ensure_ascii=False)
        elif feature.dims and not feature.type.is_number:
            flat[name] = b"".join(value)
            flat[lengths_name(name)] = np.array([len(one) for one in value], np.int64)
        else:
            flat[name] = value
            if feature.kind == "class_label" and not feature.shape:
                flat[class_name_of(name)] = feature.class_names[value]
    flat[CHECKSUM] = record.checksum
    return flat


def value_at(values: Values, path: tuple[str, ...]) -> Any:
    """The value of a feature in nested dictionaries."""
    for part in path:
        values = values[part]
    return values


def nested(schema: Schema, values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dictionaries of values that are given by the names of features."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *groups, last = schema.paths.get(name, (name,))
        inside = tree
        for group in groups:
            inside = inside.setdefault(group, {})
        inside[last] = value
    return tree


def plain(value: Any) -> Any:
    """A value without bytes as JSON has it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value
