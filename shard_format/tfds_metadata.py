"""features.json and dataset_info.json: with them `tfds.builder_from_directory` reads the set.

The layout follows tensorflow_datasets/core/proto (feature.proto, dataset_info.proto) in their JSON
mapping, in which 64-bit integers are strings.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from shard_format import naming
from shard_format.features.base import described
from shard_format.manifest import ShardInfo, SplitInfo
from shard_format.schema import Feature, Schema
from shard_format.tfrecord import FRAME_BYTES

_INPUTS = ("image", "text", "tokens")  # of a model, in records with a label


def tfds_files(name: str, schema: Schema, splits: Mapping[str, SplitInfo]) -> dict[str, bytes]:
    """The content of every file that follows from what a manifest says, by name.

    An earlier version may have written other bytes; compare with the SHA-256 of the manifest.
    """
    return _files(
        name,
        schema,
        "tfrecord",
        {
            # TFDS counts payloads, not frames.
            split: (_ShardLengths(info.shards), info.bytes - FRAME_BYTES * info.records)
            for split, info in splits.items()
            if info.shards
        },
    )


def array_record_files(
    name: str, schema: Schema, splits: Mapping[str, tuple[Sequence[int], int]]
) -> dict[str, bytes]:
    """The content of the same files for the records in files of ArrayRecord.

    Args:
        name: Name of the set.
        schema: Its schema.
        splits: By the name of a split the records of each file, and the bytes of all examples.
    """
    texts = {split: (list(map(str, files)), size) for split, (files, size) in splits.items()}
    return _files(name, schema, "array_record", texts)


def _files(
    name: str, schema: Schema, file_format: str, splits: Mapping[str, tuple[list[str], int]]
) -> dict[str, bytes]:
    files = {
        naming.FEATURES: _json(_features(schema)),
        naming.DATASET_INFO: _dataset_info(name, schema, file_format, splits),
    }
    for label in (feature for feature in schema.features if feature.kind == "class_label"):
        lines = "\n".join(map(_one_line, label.class_names)) + "\n"
        files[naming.labels_file(label.name)] = lines.encode()
    return files


def _dataset_info(
    name: str, schema: Schema, file_format: str, splits: Mapping[str, tuple[list[str], int]]
) -> bytes:
    """The content of dataset_info.json."""
    info: dict[str, Any] = {
        "name": name,
        "version": "1.0.0",
        "fileFormat": file_format,
        "splits": [
            {
                "name": split,
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
                "numBytes": str(size),
                "shardLengths": lengths,
            }
            for split, (lengths, size) in splits.items()
        ],
    }
    names = {feature.name for feature in schema.features}
    inputs = [name for name in _INPUTS if name in names]
    if inputs and "label" in names:
        pair = [{"featureKey": inputs[0]}, {"featureKey": "label"}]
        info["supervisedKeys"] = {"tuple": {"items": pair}}
    return _json(info)


def _one_line(class_name: str) -> str:
    """A class name that TFDS reads back: it reads a name per line and strips it."""
    if class_name.isprintable() and class_name.strip() == class_name:
        return class_name
    escaped = class_name.encode("unicode_escape").decode()
    start, end = len(escaped) - len(escaped.lstrip()), len(escaped.rstrip())
    return r"\x20" * start + escaped[start:end] + r"\x20" * (len(escaped) - end)


def _features(schema: Schema) -> dict[str, Any]:
    """The features, in nested dictionaries."""
    tree: dict[str, Any] = {}
    for feature in schema.features:
        *groups, last = schema.paths[feature.name]
        inside = tree
        for group in groups:
            inside = inside.setdefault(group, _dictionary({}))["featuresDict"]["features"]
        inside[last] = _feature(feature)
    return _dictionary(tree)


def _dictionary(features: dict[str, Any]) -> dict[str, Any]:
    return described("features_dict", "FeaturesDict", featuresDict={"features": features})


def _feature(feature: Feature) -> dict[str, Any]:
    if feature.ragged:
        inner = dataclasses.replace(feature, shape=feature.shape[1:], ragged=False)
        return _sequence(_feature(inner) if len(feature.dims) == 2 else _rows(inner), -1)
    if feature.is_tensor_bytes:
        return feature.type.tfds(feature.shape, "bytes", ())
    if feature.dims and (feature.dims == (-1,) or not feature.type.makes_tensors):
        return _rows(feature)
    return feature.type.tfds(feature.shape, feature.encoding, feature.class_names)


def _rows(feature: Feature) -> dict[str, Any]:
    """A list along the first dimension."""
    value = dataclasses.replace(feature, shape=feature.shape[1:])
    return _sequence(_feature(value), feature.dims[0])


def _sequence(feature: dict[str, Any], length: int) -> dict[str, Any]:
    content = {"feature": feature, "length": str(length)}  # -1 is any
    return described("sequence_feature", "Sequence", sequence=content)


class _ShardLengths(list[str]):
    """The numbers of records of shards as texts, which are made while they are written.

    Args:
        shards: There may be millions.
    """

    def __init__(self, shards: Sequence[ShardInfo]) -> None:
        super().__init__()
        self._shards = shards

    @override
    def __len__(self) -> int:
        return len(self._shards)

    @override
    def __iter__(self) -> Iterator[str]:
        return (str(shard.records) for shard in self._shards)


def _json(value: dict[str, Any]) -> bytes:
    content = io.BytesIO()  # `json.dumps` would hold a list of all pieces: two for each shard
    with io.TextIOWrapper(content, "utf-8", newline="\n") as text:
        text.writelines(json.JSONEncoder(indent=1, sort_keys=True).iterencode(value))
        text.write("\n")
        text.flush()
        return content.getvalue()
