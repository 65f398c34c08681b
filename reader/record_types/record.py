"""Records of any features: dictionaries of all of them, or of those that are asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from reader.options import ReadOptions, check_fits
from reader.record_types.base import joined
from reader.record_types.features import LabeledParser, find_labels
from reader.record_types.further import find_further
from reader.records.open_split import OpenSplit
from reader.windows import WindowRows
from shard_format import Feature

_ID = "id"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureParser(LabeledParser):
    """Parses records of any features.

    Output: ({name: values ...}, target), or the dictionary alone where the set has no labels.
    """

    @property
    @override
    def input_name(self) -> str:
        return ""

    @property
    @override
    def element_shape(self) -> tuple[int | None, ...]:
        return ()

    @property
    @override
    def element_dtype(self) -> str:
        return "dictionary"

    @property
    @override
    def specs(self) -> Any:
        return self.element(None, self.further.specs, self.target_specs)

    @override
    def element(self, value: Any, further: Mapping[str, Any], target: Any) -> Any:
        inputs = dict(further)
        return (inputs, target) if self.labels else inputs

    @override
    def decode(self, rows: WindowRows, memory: Any, begin: int) -> Any:
        values = self.further.values(rows.columns, rows.where)
        return values, self.labels.targets(rows.columns)

    @override
    def join(self, memory: Any, parts: list[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
        values, labels = (joined(each, kept) for each in zip(*parts, strict=True))
        return self.element(None, values, labels)


def record_parser(split: OpenSplit, options: ReadOptions) -> FeatureParser:
    """Creates the parser of a split of records of any features.

    Raises:
        UsageError: There is no such label or feature, or an option is not for such records.
        ShardSetError: A record has no label.
    """
    check_fits(options, "record", split.root)
    labels = find_labels(split, options.label)
    names = options.features or tuple(_chosen(split.schema.features, labels.names))
    asked = dataclasses.replace(options, features=names)
    further = find_further(split, asked, labels.names)
    return FeatureParser(
        features=(*labels.features.values(), *further.stored), labels=labels, further=further
    )


def _chosen(features: tuple[Feature, ...], labels: tuple[str, ...]) -> list[str]:
    """The features of every batch, where none are asked for."""
    return [one.name for one in features if one.name not in (_ID, *labels)]
