"""How a serialized record becomes a training element; one file per record type of the schema.

To add one: write `reader/record_types/NAME.py` (and its twin of that name in beam_jobs), and add a
line here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from reader.normalization import Normalization
from reader.options import ReadOptions
from reader.record_types.image import image_records
from shard_format import Schema


class RecordType(Protocol):
    """What the pipeline needs to know of the records of one split."""

    @property
    def num_random(self) -> int:
        """Random numbers that one record takes."""

    @property
    def element_shape(self) -> tuple[int | None, ...]:
        """Shape of the input of an element, without the batch; None where it varies."""

    @property
    def element_dtype(self) -> str:
        """Element type of the input of an element."""

    @property
    def targets(self) -> str:
        """What an element has beside its input: one of `reader.stream.TARGETS`."""

    def parse(self, serialized: Any) -> dict[str, Any]:
        """[n] string tf.train.Examples -> {feature: [n] ...}."""

    def decode(self, features: dict[str, Any], random: Any) -> Any:
        """{feature: scalar ...}, [num_random] float32 -> (input, target), or input alone."""


# (schema, index of the split, options, normalization, index file for messages) -> RecordType
RecordTypeFactory = Callable[
    [Schema, pa.Table, ReadOptions, Normalization | None, Path], RecordType
]

RECORD_TYPES: dict[str, RecordTypeFactory] = {
    "image": image_records,
}

__all__ = ["RECORD_TYPES", "RecordType", "RecordTypeFactory"]
