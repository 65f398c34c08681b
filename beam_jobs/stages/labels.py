"""The label of a record, as the late feature of its example and as a column of the index."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from beam_jobs.stages.plan.classes import label_lists, label_numbers
from shard_format import Feature, Schema, encode_features


def label_feature(schema: Schema) -> Feature | None:
    """The label of a schema; None for records without one."""
    return next((feature for feature in schema.features if feature.name == "label"), None)


class Labels:
    """The labels of the records of a shard.

    Args:
        names: [n] string, as staged.
        schema: Says whether a record has one, several or none.
        class_names: A label is an index into these.
    """

    def __init__(self, names: pa.ChunkedArray, schema: Schema, class_names: list[str]) -> None:
        self._feature = label_feature(schema)
        self._records = len(names)
        self._several = self._feature is not None and bool(self._feature.shape)
        self._values: list[Any] = [None] * len(names)
        if self._feature is None:
            return
        if self._several:
            self._values = label_lists(names, class_names)
        else:
            numbers = label_numbers(names, class_names).tolist()
            self._values = [None if number < 0 else number for number in numbers]
            # Every class once, not every record.
            self._encoded = [
                encode_features([self._feature], {"label": number})
                for number in range(len(class_names))
            ]

    def entries(self, start: int, end: int) -> list[bytes]:
        """The encoded feature of some of the records; b"" where there is none."""
        values = self._values[start:end]
        if self._feature is None:
            return [b""] * len(values)
        if self._several:
            return [encode_features([self._feature], {"label": value}) for value in values]
        return [b"" if value is None else self._encoded[value] for value in values]

    def columns(self) -> dict[str, Any]:
        """The columns of the index."""
        if not self._several:
            return {"label": pa.array(self._values, pa.int64())}
        return {
            "label": pa.nulls(self._records, pa.int64()),
            "labels": pa.array(self._values, pa.list_(pa.int64())),
        }
