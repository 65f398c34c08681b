"""The records of a data set that TensorFlow Datasets has prepared: a folder with features.json.

Its features become those of a set; what a set has no kind for becomes the next wider one. See
tensorflow_datasets/core/features and example_parser for how TFDS stores each of them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from beam_jobs.corpus.source_io import place_of
from foundation import storage
from foundation.storage import Place
from shard_format import Feature, InputError, Schema, decode_example, naming, read_records
from shard_format.feature_values import from_stored

# Types of TFDS that a set has under another name.
_DTYPES = {
    "int8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
    "float16": "float32",
    "bfloat16": "float32",
    "string": "bytes",
}
_LABEL = "label"
_KEYS = ("id", _LABEL)  # features that are those of every record of a set
_OTHER_NAMES = {"split": "tfds_split", "group": "tfds_group"}  # which a record has of its own


@dataclasses.dataclass(frozen=True)
class TfdsFeature:
    """A feature of a data set of TFDS, without the dictionaries around it.

    Attributes:
        feature: It as a feature of a set.
        dtype: Its type in TFDS.
        encoding: "none", "bytes" or "zlib": how a tensor is stored.
        sequences: Number of sequences around it.
        class_names: Names of the classes of a label.
    """

    feature: Feature
    dtype: str = ""
    encoding: str = "none"
    sequences: int = 0
    class_names: tuple[str, ...] = ()

    def value(self, stored: Mapping[str, Any]) -> Any:
        """Its value in an example, as `feature_values.checked` takes it.

        Raises:
            KeyError: The example has none.
        """
        name = self.feature.name
        if self.sequences > 1:
            return from_stored(self.feature, [stored[one.name] for one in self.feature.stored])
        if self.encoding != "none":
            return self._tensor(stored)
        values = stored[name]
        if not self.feature.type.is_number:
            return values if self.feature.dims else values[0]
        array = np.array(values, self.feature.type.dtype)
        return array.reshape(self.feature.shape) if self.feature.shape else array[0].item()

    def _tensor(self, stored: Mapping[str, Any]) -> Any:
        name, shape = self.feature.name, self.feature.shape
        is_dynamic = f"{name}/value" in stored
        (data,) = stored[f"{name}/value" if is_dynamic else name]
        data = zlib.decompress(data) if self.encoding == "zlib" else data
        array = np.frombuffer(data, np.dtype(self.dtype).newbyteorder("<"))
        return array.reshape(stored[f"{name}/shape"] if is_dynamic else shape)


def features_of(folder: str) -> list[TfdsFeature]:
    """The features of a data set, in the order of its features.json.

    Raises:
        InputError: It has none, or one that no set can have.
    """
    place = storage.place_of(folder)
    try:
        content = json.loads(storage.read_bytes(place / naming.FEATURES))
        return list(_features("", content, (), place))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder} has no {naming.FEATURES} of TensorFlow Datasets that this version reads "
            f"({type(error).__name__}: {error}). Name the folder of a version, such as "
            "~/tensorflow_datasets/mnist/3.0.1."
        ) from error


def schema_of(folder: str) -> tuple[str, Feature | None]:
    """The features of a data set as JSON, and its label if it has one.

    Raises:
        InputError: It has none, or one that no set can have.
    """
    features = [one.feature for one in features_of(folder)]
    own = tuple(_renamed(one) for one in features if one.name not in _KEYS)
    label = next((one for one in features if one.name == _LABEL), None)
    if label is not None and not _names_classes(label):
        raise InputError(
            f"The feature 'label' of {folder} is {label.form}, which names no classes. Read the "
            "data set with a program of your own that gives it another name (docs/records.md)."
        )
    return json.dumps(Schema("", own).to_json()["features"]), label


def _renamed(feature: Feature) -> Feature:
    return dataclasses.replace(feature, name=_OTHER_NAMES.get(feature.name, feature.name))


def _names_classes(label: Feature) -> bool:
    if label.kind in ("text", "bytes", "int32", "int64"):
        return len(label.dims) < 2
    return label.type.is_number and not label.dims


def _features(
    name: str, content: Mapping[str, Any], dims: tuple[int, ...], folder: Place
) -> Iterator[TfdsFeature]:
    """The features in a part of features.json.

    Args:
        name: Its name, with those of the dictionaries around it.
        content: The part.
        dims: Lengths of the sequences around it.
        folder: The folder of the data set.
    """
    if "featuresDict" in content or "translation" in content:
        for key, part in content.get("featuresDict", {}).get("features", {}).items():
            yield from _features(f"{name}/{key}" if name else key, part, dims, folder)
        for language in content.get("translation", {}).get("languages", ()):
            yield _made(f"{name}/{language}", "text", (), dims)
    elif "sequence" in content:
        own = content["sequence"]
        length = int(own.get("length", -1))
        yield from _features(name, own["feature"], (*dims, length), folder)
    elif "image" in content:
        channels = _shape(content["image"]["shape"])[-1]
        encoding = content["image"].get("encodingFormat", "")
        yield _made(name, "image", (-1, -1, channels), dims, encoding=encoding)
    elif "classLabel" in content:
        names = _class_names(folder, name)
        made = _made(name, "int64", (), dims)
        if names and "/" in name:  # of a part; that of a record is its label, or a number
            named = dataclasses.replace(made.feature, kind="class_label", class_names=names)
            made = dataclasses.replace(made, feature=named)
        yield dataclasses.replace(made, class_names=names)
    elif "boundingBox" in content:
        yield _made(name, "bbox", (4,), dims)
    elif "text" in content:
        yield _made(name, "text", (), dims)
    elif "tensor" in content:
        own = content["tensor"]
        kind = _DTYPES.get(own["dtype"], own["dtype"])
        made = _made(name, kind, _shape(own["shape"]), dims)
        encoding = own.get("encoding") or "none"
        yield dataclasses.replace(made, dtype=own["dtype"], encoding=encoding)
    else:
        raise ValueError(f"{name!r} is a {content.get('pythonClassName', 'feature')}")


def _made(
    name: str, kind: str, shape: tuple[int, ...], dims: tuple[int, ...], encoding: str = ""
) -> TfdsFeature:
    ragged = len(dims) > 1
    full = (*(-1 for _ in dims), *shape) if ragged else (*dims, *shape)
    return TfdsFeature(Feature(name, kind, full, encoding, ragged=ragged), sequences=len(dims))


def _shape(content: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(size) for size in content.get("dimensions", ()))


def _class_names(folder: Place, name: str) -> tuple[str, ...]:
    file = folder / naming.labels_file(name)
    if storage.stat(file) is None:
        return ()
    return tuple(storage.read_bytes(file).decode().splitlines())


def items(folder: str) -> Iterator[str]:
    """The TFRecord files of a data set."""
    place = storage.place_of(folder)
    names = sorted(entry.name for entry in storage.list_folder(place))
    yield from (str(place / name) for name in names if ".tfrecord" in name)


def read(item: str, folder: str) -> Iterator[dict[str, Any]]:
    """The records of a file."""
    features = features_of(folder)
    split = os.path.basename(item).rpartition(".tfrecord")[0].rpartition("-")[2]
    for _, example in read_records(place_of(os.fsencode(item))):
        stored = decode_example(example)
        record: dict[str, Any] = {"split": split}
        for one in features:
            value = one.value(stored)
            if one.feature.name == _LABEL and one.class_names:
                value = _label(value, one.class_names)
            record[_OTHER_NAMES.get(one.feature.name, one.feature.name)] = value
        yield record


def _label(value: Any, names: tuple[str, ...]) -> Any:
    """The name of a class, or a list of several; TFDS writes -1 where there is none."""
    if isinstance(value, np.ndarray):
        return [_label(number, names) for number in value.tolist()]
    if value < 0:
        return None
    return names[value] if value < len(names) else str(value)
