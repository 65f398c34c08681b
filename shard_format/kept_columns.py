"""Kept columns in the index: what a record has in a column of `--keep-columns`.

The value in the index follows from the value in the record, so that it can be computed again from
that: of a text the beginning, since an index is to stay small, and null where the record has none.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from shard_format.index import index_schema
from shard_format.schema import Feature

KEPT_TYPES = {
    "text": pa.string(),
    "bool": pa.bool_(),
    "uint8": pa.uint8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
"""Type of the column by the kind of the feature."""

_OWN_COLUMNS = frozenset(index_schema(()).names)
TEXT_BYTES = 256
"""Bytes of a text that the index has; of a longer one as many whole characters as fit."""


def is_scalar(feature: Feature) -> bool:
    """Whether a feature is one text or number."""
    return feature.kind in KEPT_TYPES and not feature.shape


def is_in_index(feature: Feature) -> bool:
    """Whether a kept column is in the index: a scalar, with a name that no other column has."""
    return is_scalar(feature) and feature.name not in _OWN_COLUMNS


def index_values(values: Sequence[str | int | float], kind: str) -> pa.Array:
    """[n] of `KEPT_TYPES`: the column of the index; null for an empty text and for NaN.

    Args:
        values: [n], what the records have.
        kind: The kind of the feature, a key of `KEPT_TYPES`.
    """
    if kind == "text":
        return pa.array([_beginning(str(value)) or None for value in values], KEPT_TYPES[kind])
    return pa.array(values, KEPT_TYPES[kind], from_pandas=True)


def _beginning(text: str) -> str:
    if 4 * len(text) <= TEXT_BYTES:  # a character takes 4 bytes at most
        return text
    return text.encode()[:TEXT_BYTES].decode(errors="ignore")
