"""Further features of a record: found in the schema, parsed, and handed out with the batch.

Values of one shape are an array of all records. Others are a list with a value of each record: an
array where the shape varies by record, and a list of arrays where it varies within a record. With a
fixed number of values (`list_size`) lists are arrays too, with a count beside them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from foundation.options import check_choice
from reader.options import ReadOptions
from reader.record_types.base import ElementSpec
from reader.record_types.objects import MovedObjects
from reader.records.open_split import OpenSplit
from shard_format import DamageError, Feature, Schema, UsageError
from shard_format.example_parser import ByteValues, Column, NumberLists
from shard_format.feature_values import from_stored

_NO_LABEL = -1  # behind the labels of a list that is filled up


@dataclasses.dataclass(frozen=True)
class FurtherFeatures:
    """The features that `features` of `reader.load` names.

    Attributes:
        features: In the order asked for.
        paths: By the name of a feature, the names that lead to it in nested dictionaries.
        list_size: Values of every list; None gives each record its own number.
        decode: Whether images are decoded.
        moved: How objects and masks follow their images; None where these are as stored.
    """

    features: tuple[Feature, ...] = ()
    paths: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    list_size: int | None = None
    decode: bool = True
    moved: MovedObjects | None = None

    @functools.cached_property
    def stored(self) -> tuple[Feature, ...]:
        """What is parsed of an example."""
        return tuple(part for feature in self.features for part in feature.stored)

    @property
    def specs(self) -> dict[str, Any]:
        """Describes the value of each, in nested dictionaries."""
        specs = {one.name: self._spec(one) for one in self.features}
        return self.nested(specs)

    def nested(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the names of features, in nested dictionaries; with the counts of lists."""
        tree: dict[str, Any] = {}
        for name, value in values.items():
            *groups, last = self.paths[name]
            inside = tree
            for group in groups:
                inside = inside.setdefault(group, {})
            if isinstance(value, tuple):
                value, inside["count" if groups else f"{last}_count"] = value
            inside[last] = value
        return tree

    def values(
        self, columns: Mapping[str, Column], place: Any = None, *moves: Any
    ) -> dict[str, Any]:
        """The values of [n] records, from what was parsed; texts are bytes of UTF-8.

        Args:
            columns: Has those of `stored`.
            place: From the number of a record to where it is, for messages.
            moves: What `MovedObjects.moved` takes, if there are such.

        Raises:
            DamageError: A value is damaged.
        """
        values = {one.name: self._values(one, columns, place) for one in self.features}
        if self.moved is not None:
            values = self.moved.moved(values, *moves)
        padded = [one for one in self.features if self.is_padded(one)]
        values |= {one.name: self._filled_up(one, values[one.name]) for one in padded}
        return self.nested(values)

    def _spec(self, feature: Feature) -> Any:
        dtype = _dtype(feature) if self.decode or feature.kind != "image" else "string"
        shape = tuple(None if size < 0 else size for size in feature.shape)
        if dtype == "string":
            shape = shape[: len(feature.dims)]
        # Decoded images of a record are a list, whose sizes differ.
        is_list = feature.ragged or (feature.kind == "image" and dtype != "string" and feature.dims)
        spec = ElementSpec(shape, dtype, lists=bool(is_list) + (None in shape))
        if self.moved is not None:
            spec = self.moved.specs(feature.name, spec)
        if self.is_padded(feature):
            padded = ElementSpec((self.list_size, *spec.shape[1:]), spec.dtype)
            return padded, ElementSpec((), "int64")
        return spec

    def is_padded(self, feature: Feature) -> bool:
        """Whether a list is filled up to a size."""
        if self.list_size is None or feature.ragged or feature.kind == "image":
            return False
        return feature.dims[:1] == (-1,) and -1 not in feature.shape[1:]

    def _values(self, feature: Feature, columns: Mapping[str, Column], place: Any) -> Any:
        parts = [columns[part.name] for part in feature.stored]
        dense = _dense(feature, parts[0])
        if dense is not None:
            return dense
        values = []
        for row in range(len(parts[0])):
            try:
                values.append(self._value(feature, [_of_record(part, row) for part in parts]))
            except ValueError as error:
                where = "" if place is None else f" in {place(row)}"
                raise DamageError(
                    f"Feature {feature.name!r} is not {feature.form}: found {error}{where}. Build "
                    "the set again."
                ) from error
        if -1 in feature.shape or feature.kind == "image":
            return values
        return np.stack(values)

    def _value(self, feature: Feature, parts: list[Any]) -> Any:
        if feature.kind == "image":
            images = [self._image(data) for data in parts[0]]
            if not feature.dims:
                return images[0]
            return images if self.decode else _objects(images)
        if feature.type.is_number:
            return from_stored(feature, parts)
        if feature.ragged:
            flat = [bytes(one) for one in parts[0]]
            ends = np.cumsum(parts[1], dtype=np.int64)
            return [_objects(some) for some in np.split(_objects(flat), ends[:-1])]
        return _objects([bytes(one) for one in parts[0]])

    def _image(self, data: memoryview) -> Any:
        if not self.decode:
            return bytes(data)
        from reader.access.numpy_decoders import decode_unchanged  # not for texts

        return decode_unchanged(data)

    def _filled_up(
        self, feature: Feature, values: list[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """([n, list_size, ...], [n] int64): the values of each record, and how many they are."""
        size = self.list_size or 0
        if values[0].dtype != object:
            fill = _NO_LABEL if feature.kind == "class_label" else 0
            filled = np.full((len(values), size, *values[0].shape[1:]), fill, values[0].dtype)
        else:
            filled = np.full((len(values), size), b"", object)
        counts = np.array([min(len(one), size) for one in values], np.int64)
        for row, (one, count) in enumerate(zip(values, counts.tolist(), strict=True)):
            filled[row, :count] = one[:count]
        return filled, counts


def _dtype(feature: Feature) -> str:
    if feature.kind == "image":
        return "uint8"
    return feature.type.dtype if feature.type.is_number else "string"


def _dense(feature: Feature, column: Column) -> npt.NDArray[Any] | None:
    """[n, *shape], where all records have one shape and their values are neighbours."""
    if isinstance(column, NumberLists) and -1 not in feature.shape and not feature.ragged:
        return column.values.reshape(-1, *feature.shape).astype(feature.type.dtype, copy=False)
    if isinstance(column, ByteValues) and not feature.type.is_number and feature.kind != "image":
        return byte_strings(column)
    return None


def _of_record(column: Column, row: int) -> Any:
    """The values of one record."""
    if isinstance(column, NumberLists):
        return column[row]
    if isinstance(column, ByteValues):
        return [column[row]]
    begin, end = column.splits[row : row + 2].tolist()
    return [column.values[number] for number in range(begin, end)]


def byte_strings(column: ByteValues) -> npt.NDArray[np.object_]:
    """[n] bytes."""
    return _objects(list(map(bytes, column)))


def _objects(values: Any) -> npt.NDArray[np.object_]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def find_further(split: OpenSplit, options: ReadOptions, own: tuple[str, ...]) -> FurtherFeatures:
    """The features that the options name.

    Args:
        split: The split.
        options: The arguments `features`, `list_size` and `decode` of `reader.load`.
        own: Names of the features that every batch has anyway.

    Raises:
        UsageError: There is no such feature.
    """
    features = {one.name: one for one in split.schema.features if one.name not in own}
    groups: dict[str, list[Feature]] = {}
    for feature in features.values():
        for depth in range(1, len(split.schema.paths[feature.name])):
            group = "/".join(split.schema.paths[feature.name][:depth])
            groups.setdefault(group, []).append(feature)
    chosen: dict[str, Feature] = {}
    for name in options.features:
        if name in own:
            raise UsageError(
                f"features names {name!r}, which every batch of {split.root} has. Leave it out."
            )
        check_choice("feature", name, {**features, **groups}, split.root)
        some = groups[name] if name in groups else [features[name]]
        chosen |= {one.name: one for one in some}
    paths = {name: _path(split.schema, name, own) for name in chosen}
    return FurtherFeatures(tuple(chosen.values()), paths, options.list_size, options.decode)


def _path(schema: Schema, name: str, own: tuple[str, ...]) -> tuple[str, ...]:
    """The path of a feature in a batch, in which the inputs have their own names."""
    path = schema.paths[name]
    return (name,) if path[0] in own else path
