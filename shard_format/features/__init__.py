"""The kinds of features, each in a file of its own: its values, their storage, and TFDS' JSON.

To add one, write a `FeatureKind` in a file here, and add a line to `KINDS`.
"""

from __future__ import annotations

from shard_format.features.base import FeatureKind
from shard_format.features.bbox import BBox
from shard_format.features.class_label import ClassLabel
from shard_format.features.image import Image
from shard_format.features.tensor import FLOAT32, INT64, Tensor
from shard_format.features.text import Bytes, Text

KINDS: dict[str, FeatureKind] = {
    "image": Image(),
    "text": Text(),
    "bytes": Bytes(),
    "class_label": ClassLabel(),
    "bbox": BBox(),
    "bool": Tensor("bool", "int64_list"),
    "uint8": Tensor("uint8", "int64_list"),
    "int32": Tensor("int32", "int64_list"),
    "int64": INT64,
    "float32": FLOAT32,
    "float64": Tensor("float64", "bytes_list"),
}
"""Kinds by their names in a schema and in --keep-columns."""
