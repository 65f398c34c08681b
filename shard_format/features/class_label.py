"""Class labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from shard_format.features.base import FeatureKind, Json, described
from shard_format.features.tensor import INT64


class ClassLabel(FeatureKind):
    """An index into the names of classes."""

    storage = "int64_list"
    dtype = "int64"

    @override
    def checked(self, value: Any, shape: Sequence[int]) -> Any:
        return INT64.checked(value, shape)

    @override
    def tfds(self, shape: Sequence[int], encoding: str, class_names: Sequence[str]) -> Json:
        label = {"numClasses": str(len(class_names))}
        return described("class_label_feature", "ClassLabel", classLabel=label)
