"""The records of a stream without their later stages, for a chain that is cut short.

One function for each record type gives the records with one stage more each time, by the name of
the last stage. The last of them are the records themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import tensorflow as tf

from reader.record_types import BatchRecords, SingleRecords
from reader.record_types.image import ImageRecords
from reader.record_types.packed import PackedRecords
from reader.record_types.text import TextRecords
from reader.record_types.tokens import TokenRecords
from reader.transforms.augmentation import Steps

Records = SingleRecords | BatchRecords


@dataclasses.dataclass(frozen=True)
class Serialized:
    """Records that are not even parsed: of each, how many bytes it has."""

    targets: ClassVar[str] = "none"

    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        """[batch] string -> [batch] int32."""
        return tf.strings.length(serialized)


@dataclasses.dataclass(frozen=True)
class Parsed:
    """Images that are parsed and pass one by one, each as the size of its first feature."""

    records: ImageRecords
    num_random: ClassVar[int] = 0
    boxes_many: ClassVar[bool] = False
    mixes: ClassVar[bool] = False
    targets: ClassVar[str] = "none"

    def parse(self, serialized: Any) -> dict[str, Any]:
        """See `SingleRecords.parse`."""
        return self.records.parse(serialized)

    def decode(self, features: dict[str, Any], random: Any) -> Any:
        """One number, whatever the features."""
        return tf.strings.length(features["image"])


def image_pipelines(records: ImageRecords) -> list[tuple[str, Any]]:
    """Parsed; cropped, decoded and resized; with all transforms.

    The crop is part of decoding, where it saves more than it costs.
    """
    cropped = dataclasses.replace(records, steps=Steps(records.steps.of("crop")))
    return [("parse", Parsed(records)), ("decode", cropped), ("augment", records)]


def text_pipelines(records: TextRecords) -> list[tuple[str, Any]]:
    """Parsed; with all transforms."""
    return [("parse", dataclasses.replace(records, steps=())), ("augment", records)]


def token_pipelines(records: TokenRecords) -> list[tuple[str, Any]]:
    """Parsed, as rows of any length; with all transforms; padded to one length."""
    ragged = dataclasses.replace(records, pad="none")
    return [
        ("parse", dataclasses.replace(ragged, transforms=())),
        ("augment", ragged),
        ("batch", records),
    ]


def packed_pipelines(records: PackedRecords) -> list[tuple[str, Any]]:
    """Parsed, which gives whole batches; with all transforms."""
    return [("parse", dataclasses.replace(records, transforms=())), ("augment", records)]


_PARTIAL: dict[type, Callable[[Any], list[tuple[str, Any]]]] = {
    ImageRecords: image_pipelines,
    TextRecords: text_pipelines,
    TokenRecords: token_pipelines,
    PackedRecords: packed_pipelines,
}


def partial_pipelines(records: Records) -> list[tuple[str, Any]]:
    """(name of the last stage, records that pass the stages up to it), the whole chain last."""
    return [("storage", Serialized()), *_PARTIAL[type(records)](records)]
