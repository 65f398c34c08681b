"""The feature schema: the features of an example, declared and never inferred from samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from foundation.errors import ShardSetError, UsageError

# kind of feature -> the field of tf.train.Feature that stores it
STORAGE = {
    "image": "bytes_list",  # one encoded image
    "text": "bytes_list",  # one UTF-8 string
    "bytes": "bytes_list",
    "class_label": "int64_list",  # indices into `class_names`: one, or any number by the shape
    "int64": "int64_list",
    "float32": "float_list",
}

ENCODINGS = ("jpeg", "png", "webp", "raw")
"""How the bytes of an image are encoded.

"raw" is [height, width, 3] uint8, with the sides in two int64 features of these names.
"""

KEPT_IN_INDEX = "kept_in_index"
"""Key of the manifest's config: true if the index has the kept columns (`Schema.kept`)."""

# Scalars that record types write themselves; --keep-columns can have none of these names.
_OWN_SCALARS = frozenset({"id", "text", "height", "width"})


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named column of every example.

    Attributes:
        name: The key inside tf.train.Example.
        kind: One of `STORAGE`.
        shape: After decoding, with `-1` for a dimension that varies; `()` is a scalar, and `(-1,)`
            a list of any length. An image is `(height, width, channels)`.
        encoding: For an image, how its bytes are encoded, one of `ENCODINGS`; empty otherwise.
        class_names: For a class_label, the name of every class; a label is an index into it.
        late: Whether the value is known only after all records are (a class label needs the list
            of all classes), and is added when shards are written. Late features come last.
    """

    name: str
    kind: str
    shape: tuple[int, ...] = ()
    encoding: str = ""
    class_names: tuple[str, ...] = ()
    late: bool = False

    def __post_init__(self) -> None:
        if self.kind not in STORAGE:
            raise UsageError(
                f"Feature {self.name!r} has the unknown kind {self.kind!r}. Choose from: "
                f"{', '.join(STORAGE)}."
            )

    @property
    def storage(self) -> str:
        """The field of tf.train.Feature that holds the values."""
        return STORAGE[self.kind]


@dataclasses.dataclass(frozen=True)
class Schema:
    """The features of a shard set, in the order in which an example stores them."""

    record_type: str
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        if len(set(names)) != len(names):
            raise UsageError(f"Feature names are not unique: {names}. Rename the repeated one.")
        late = [feature.late for feature in self.features]
        if late != sorted(late):
            raise UsageError(
                f"Late features do not come after all others: {names}. Reorder the schema."
            )

    def __getitem__(self, name: str) -> Feature:
        """The feature of that name; KeyError if there is none."""
        for feature in self.features:
            if feature.name == name:
                return feature
        raise KeyError(name)

    @property
    def kept(self) -> list[Feature]:
        """The features of `--keep-columns`: text, int64 and float32, one value each."""
        return [
            one
            for one in self.features
            if one.kind in ("text", "int64", "float32")
            and not one.shape
            and one.name not in _OWN_SCALARS
        ]

    def with_class_names(self, name: str, class_names: tuple[str, ...]) -> Schema:
        """This schema with the class names of label `name`."""
        return dataclasses.replace(
            self,
            features=tuple(
                dataclasses.replace(feature, class_names=class_names)
                if feature.name == name
                else feature
                for feature in self.features
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """The form the manifest stores."""
        return {
            "record_type": self.record_type,
            "features": [
                {
                    "name": feature.name,
                    "kind": feature.kind,
                    "shape": list(feature.shape),
                    **({"encoding": feature.encoding} if feature.encoding else {}),
                    **({"class_names": list(feature.class_names)} if feature.class_names else {}),
                    **({"late": True} if feature.late else {}),
                }
                for feature in self.features
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Schema:
        """The inverse of `to_json`.

        Raises:
            ShardSetError: The value does not describe a schema.
        """
        try:
            return cls(
                record_type=value["record_type"],
                features=tuple(
                    Feature(
                        name=item["name"],
                        kind=item["kind"],
                        shape=tuple(item["shape"]),
                        encoding=item.get("encoding", ""),
                        class_names=tuple(item.get("class_names", ())),
                        late=item.get("late", False),
                    )
                    for item in value["features"]
                ),
            )
        except (KeyError, TypeError, UsageError) as error:
            raise ShardSetError(
                f"This version cannot read the schema of the set: {error}. Install the version of "
                "shardmill that wrote the set, or build it again."
            ) from error
