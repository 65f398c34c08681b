"""Labels of a record: found in the schema, parsed, and handed out as targets."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from foundation.options import check_choice
from reader.record_types.base import ElementSpec, Parser
from reader.record_types.further import FurtherFeatures
from reader.records.open_split import OpenSplit
from shard_format import Feature, Manifest, Schema, ShardSetError, UsageError, label_column
from shard_format.example_parser import Column, NumberLists


def find_feature(schema: Schema, kind: str) -> Feature | None:
    """The first feature of a kind that is in no dictionary; None if there is none."""
    features = (one for one in schema.features if len(schema.paths[one.name]) == 1)
    return next((one for one in features if one.kind == kind), None)


@dataclasses.dataclass(frozen=True)
class TargetLabels:
    """The labels that are the targets of a batch.

    Attributes:
        features: By the names that the caller gave; one or none, unless `by_name`.
        by_name: Whether the targets are a dictionary.
    """

    features: Mapping[str, Feature]
    by_name: bool = False

    def __bool__(self) -> bool:
        return bool(self.features)

    @property
    def kind(self) -> str:
        """One of `reader.stream.TARGETS`."""
        if not self.features:
            return "none"
        if self.by_name:
            return "named"
        return "labels" if self._only.shape else "label"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(feature.name for feature in self.features.values())

    def of(self, parsed: Mapping[str, Any]) -> Any:
        """Their values among all that were parsed, in the structure of the targets."""
        if not self.by_name:
            return parsed[self._only.name]
        return {name: parsed[feature.name] for name, feature in self.features.items()}

    def convert(self, function: Callable[[Feature, Any], Any], values: Any) -> Any:
        """`function` of every label and its value, in the structure of the targets."""
        if not self.by_name:
            return function(self._only, values)
        return {name: function(feature, values[name]) for name, feature in self.features.items()}

    @property
    def specs(self) -> Any:
        """An `ElementSpec` of each target, in the structure of the targets."""
        return self.convert(lambda label, _: _target_spec(label), dict.fromkeys(self.features))

    def targets(self, columns: Mapping[str, Column]) -> Any:
        """The targets of [n] records, from what was parsed: in the structure of the targets.

        None where there are no labels.
        """
        return self.convert(_targets, self.of(columns)) if self else None

    @property
    def share_specs(self) -> Any:
        """An `ElementSpec` of each target where records are mixed."""
        return self.convert(lambda label, _: _share_spec(label), dict.fromkeys(self.features))

    def shares(self, targets: Any) -> Any:
        """[n, num_classes] float32 of each of the `targets`, as mixed records have them."""
        return self.convert(_shares, targets)

    @property
    def _only(self) -> Feature:
        (feature,) = self.features.values()
        return feature


def find_labels(split: OpenSplit, asked: str | Sequence[str] | None) -> TargetLabels:
    """The labels that are the targets.

    Args:
        split: The split.
        asked: The argument `label` of `reader.load`.

    Raises:
        UsageError: There is no such label.
        ShardSetError: A record that must have a label has none.
    """
    if asked is None:
        main = find_feature(split.schema, "class_label")
        labels = TargetLabels({} if main is None else {main.name: main})
    else:
        names = [asked] if isinstance(asked, str) else asked
        known = labels_by_name(split.manifest)
        if not known:
            raise UsageError(
                f"label={asked!r} does not apply to {split.root}, whose records have no labels. "
                "Leave label out."
            )
        for name in names:
            check_choice("label", name, known, split.root)
        labels = TargetLabels({name: known[name] for name in names}, not isinstance(asked, str))
        if len({feature.name for feature in labels.features.values()}) < len(names):
            raise UsageError(
                f"label={asked!r} names one label of {split.root} twice in reader.load: its main "
                "label has the name of its column too. Leave one of them out."
            )
    for feature in labels.features.values():
        _check_no_nulls(split, feature)
    return labels


def labels_by_name(manifest: Manifest) -> dict[str, Feature]:
    """Labels by the names of their features; the main one also by that of its column."""
    stored = manifest.schema.labels
    known = {feature.name: feature for feature in stored}
    columns = manifest.config.get("label_column")
    if stored and isinstance(columns, str):
        known.setdefault(columns.partition(",")[0].strip(), stored[0])
    return known


def label_values(split: OpenSplit, label: Feature | None) -> pa.ChunkedArray:
    """The column of the index with a label, or with that of all records if there is none.

    Raises:
        ShardSetError: The index of a set by another program may lack it.
    """
    # That of the first label has this name, whatever that of the feature is.
    main = label is None or label == find_feature(split.schema, "class_label")
    column = "label" if label is None or main else label_column(label.name)
    if column not in split.index.column_names:
        raise ShardSetError(
            f"The index has no column {column!r} with the label, only "
            f"{', '.join(split.index.column_names)}, in {split.where}. Build the set again."
        )
    return split.column(column)


def _unlabelled(split: OpenSplit, label: Feature) -> int:
    """The number of records without a label, which a set with an index in parts has counted."""
    info = split.manifest.splits[split.name]
    if not info.index or split.selection is not None:
        return label_values(split, label).null_count
    known: Mapping[str, Any] = info.statistics
    if label != find_feature(split.schema, "class_label"):
        known = known.get("labels", {}).get(label.name, {})
    return info.records - sum(known.get("class_counts", {}).values())


def _check_no_nulls(split: OpenSplit, label: Feature) -> None:
    """Checks that every record has a label, or may have any number of them.

    Raises:
        ShardSetError: One has none.
    """
    missing = 0 if label.shape else _unlabelled(split, label)
    if missing:
        main = label == find_feature(split.schema, "class_label")
        raise ShardSetError(
            f"{missing} records have no label{'' if main else f' {label.name!r}'} in "
            f"{split.where}. Build the set again from a source with labels."
        )


def _target_spec(label: Feature) -> ElementSpec:
    return _share_spec(label) if label.shape else ElementSpec((), "int64")


def _share_spec(label: Feature) -> ElementSpec:
    return ElementSpec((len(label.class_names),), "float32")


def _shares(label: Feature, target: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if label.shape:
        return target
    return (target[:, None] == np.arange(len(label.class_names))).astype(np.float32)


def _targets(label: Feature, column: NumberLists) -> npt.NDArray[Any]:
    """[n] int64, or [n, num_classes] float32 of 0 and 1, with one at every label of a record."""
    if not label.shape:
        return column.values
    targets = np.zeros((len(column), len(label.class_names)), np.float32)
    rows = np.repeat(np.arange(len(column)), np.diff(column.splits))
    targets[rows, column.values] = 1
    return targets


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabeledParser(Parser):
    """Parses records of one value, with their labels and further features.

    Output: (input, target), or the input alone where the set has no labels.

    Attributes:
        labels: Features with the targets; none where there are no labels.
        further: Features that are handed out with the value.
    """

    labels: TargetLabels
    further: FurtherFeatures

    @property
    @abc.abstractmethod
    def input_name(self) -> str:
        """Name of the value where there are further features."""

    @property
    def is_list(self) -> bool:
        """Whether the values of a batch are a list of arrays of their own shapes."""
        return False

    @property
    def target_specs(self) -> Any:
        """An `ElementSpec` of each target, in the structure of the targets; None without labels."""
        return self.labels.specs if self.labels else None

    @property
    @override
    def specs(self) -> Any:
        value = ElementSpec(self.element_shape, self.element_dtype, lists=int(self.is_list))
        return self.element(value, self.further.specs, self.target_specs)

    @property
    @override
    def targets(self) -> str:
        return self.labels.kind

    def element(self, value: Any, further: Mapping[str, Any], target: Any) -> Any:
        """A batch or an element in the structure of the output.

        The input is a dictionary where there are further features.

        Args:
            value: The value.
            further: The further features, in nested dictionaries.
            target: Is left out where there are no labels.
        """
        inputs = {self.input_name: value, **further} if self.further.features else value
        return (inputs, target) if self.labels else inputs
