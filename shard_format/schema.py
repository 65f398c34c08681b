"""The feature schema: the features of an example, declared and never inferred from samples."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

from foundation.errors import ShardSetError, UsageError
from foundation.wording import did_you_mean
from shard_format.features import KINDS
from shard_format.features.base import FeatureKind, shown_shape

ENCODINGS = ("jpeg", "png", "webp", "raw")
"""How the bytes of an image are encoded.

"raw" is [height, width, 3] uint8, with the sides in two int64 features of these names.
"""

KEPT_IN_INDEX = "kept_in_index"
"""Key of the manifest's config: true if the index has the kept columns (`Schema.kept`)."""

# Features that a record type writes itself, by its name; kept columns are others. Of documents they
# are those of every other type too.
_OWN_FEATURES = {
    "image": frozenset({"id", "image", "height", "width"}),
    "record": frozenset({"id"}),
    "text": frozenset({"id", "text", "tokens", "segments", "positions"}),
}

# Names of types in Python -> the kind that holds what they hold.
_MEANT = {"int": "int64", "float": "float32", "str": "text", "string": "text"}
# "float32", "float32[*,4]", "int64[*][*,2]"
_FORM = re.compile(r"(?P<kind>\w+)(?P<dims>(\[[\d*]+(,[\d*]+)*\])*)")


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named feature of every example.

    Attributes:
        name: The key inside tf.train.Example; a "/" separates the names of nested dictionaries.
        kind: One of `features.KINDS`.
        shape: Shape of the decoded value, with `-1` for a dimension that varies; `()` is a scalar,
            `(-1,)` a list of any length, `(-1, 4)` any number of rows of four. An image is
            `(height, width, channels)`, and several are `(-1, height, width, channels)`.
        encoding: For an image, how its bytes are encoded, one of `ENCODINGS`; empty otherwise.
        class_names: For a class_label, the name of every class; a label is an index into it.
        late: Whether the value is known only after all records are (a class label needs the list
            of all classes), and is added when shards are written. Late features come last.
        ragged: Whether the value is a list of lists, whose lengths differ within an example; both
            are the first dimensions of the shape.
    """

    name: str
    kind: str
    shape: tuple[int, ...] = ()
    encoding: str = ""
    class_names: tuple[str, ...] = ()
    late: bool = False
    ragged: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(
                f"Feature {self.name!r} has the unknown kind {self.kind!r}. Choose from: "
                f"{', '.join(KINDS)}."
            )
        if not self._is_possible():
            raise UsageError(
                f"Feature {self.name!r} of kind {self.kind} cannot have the shape "
                f"{list(self.shape)}{' of lists' if self.ragged else ''}. Numbers make tensors of "
                "any shape; all kinds make lists, and lists of lists of one shape."
            )

    def _is_possible(self) -> bool:
        dims = len(self.dims)
        if len(self.shape) - dims != len(self.type.value_shape) or 0 in self.shape:
            return False
        if self.ragged:
            is_list = self.shape[:2] == (-1, -1) and dims >= 2 and -1 not in self.shape[2:]
            return is_list and not self.is_tensor_bytes and (dims == 2 or self.type.makes_tensors)
        return dims < 2 or self.type.makes_tensors

    @classmethod
    def parse(cls, name: str, form: str) -> Feature:
        """The feature of a form such as "int64", "float32[*,4]" or `text[*][*]`.

        In brackets are sizes, and "*" where they vary; lists of lists have two pairs of brackets.

        Raises:
            UsageError: It is none.
        """
        match = _FORM.fullmatch(form)
        kind = match["kind"] if match else re.split(r"\W", form, maxsplit=1)[0]
        if match is None or kind not in KINDS:
            near = "" if kind in KINDS else did_you_mean(_MEANT.get(kind, kind), KINDS)
            raise UsageError(
                f"{form!r} is no form of the feature {name!r}: a kind ({', '.join(KINDS)}), and "
                f"its sizes in brackets, with * where they vary. {near}Write for instance float32, "
                "text[*], float32[*,4], or int64[*][*] for lists of lists."
            )
        groups = re.findall(r"\[([^]]*)\]", match["dims"])
        try:
            sizes = [[-1 if one == "*" else int(one) for one in text.split(",")] for text in groups]
        except ValueError:
            sizes = [[0]]
        if any(size == 0 for group in sizes for size in group):
            raise UsageError(
                f"{form!r} of the feature {name!r} has a size that is neither '*' nor a whole "
                "number of at least 1. Write for instance float32[*,4]."
            )
        # [*][4] is stored, and read, as [*,4] is; so are lists of a length that is known.
        ragged = len(sizes) > 1 and sizes[0] == [-1] and sizes[1][0] == -1
        flat = tuple(size for group in sizes for size in group)
        return cls(name, kind, (*flat, *KINDS[kind].value_shape), ragged=ragged)

    @property
    def form(self) -> str:
        """What `parse` takes."""
        dims = self.dims
        if self.ragged:
            return f"{self.kind}[*]{shown_shape(dims[1:])}"
        return f"{self.kind}{shown_shape(dims) if dims else ''}"

    @functools.cached_property
    def type(self) -> FeatureKind:
        """The kind."""
        return KINDS[self.kind]

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions around one value: () of a scalar, or of one image."""
        return self.shape[: len(self.shape) - len(self.type.value_shape)]

    @property
    def storage(self) -> str:
        """The field of tf.train.Feature that holds the values of a flat feature."""
        return self.type.storage

    @property
    def is_tensor_bytes(self) -> bool:
        """Whether a tensor is stored as its bytes.

        So are types that tf.train.Feature does not hold as such or wastes space on, and tensors
        whose shape does not follow from the number of values.
        """
        if self.kind == "float64" or (self.kind == "uint8" and bool(self.shape)):
            return True
        return self.type.is_number and not self.ragged and -1 in self.dims[1:]

    @functools.cached_property
    def stored(self) -> tuple[Feature, ...]:
        """The features that an example has for it: itself, or its parts, as TFDS names them.

        Their values are flat: bytes, numbers, or a list of either.
        """
        if self.ragged:
            flat = dataclasses.replace(
                self,
                name=f"{self.name}/ragged_flat_values",
                shape=(-1, *self.shape[2:]),
                ragged=False,
            )
            return flat, Feature(f"{self.name}/ragged_row_lengths_0", "int64", (-1,))
        if not self.is_tensor_bytes:
            return (self,)
        if self.shape.count(-1) < 2:
            return (Feature(self.name, "bytes"),)
        shape = Feature(f"{self.name}/shape", "int64", (len(self.shape),))
        return shape, Feature(f"{self.name}/value", "bytes")

    @property
    def is_flat(self) -> bool:
        """Whether an example has it as it is."""
        return self.stored[0] is self


@dataclasses.dataclass(frozen=True)
class Schema:
    """The features of a shard set, in the order in which an example stores them."""

    record_type: str
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        names = [part.name for feature in self.features for part in feature.stored]
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
    def labels(self) -> list[Feature]:
        """The labels of records, the main one first; those inside of dictionaries are of parts."""
        return [
            one
            for one in self.features
            if one.kind == "class_label" and len(self.paths[one.name]) == 1
        ]

    @property
    def kept(self) -> list[Feature]:
        """The features of `--keep-columns`, and those of objects and masks."""
        own = _OWN_FEATURES.get(self.record_type, _OWN_FEATURES["text"])
        taken = {*own, *(label.name for label in self.labels)}
        return [one for one in self.features if one.name not in taken]

    @functools.cached_property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """By the name of a feature, the names that lead to it in nested dictionaries.

        A "/" begins another dictionary, unless a feature has the name before it.
        """
        names = {feature.name for feature in self.features}
        paths = {}
        for name in names:
            parts = tuple(name.split("/"))
            groups = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
            paths[name] = parts if all(parts) and not groups & names else (name,)
        return paths

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
                    **({"ragged": True} if feature.ragged else {}),
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
                        ragged=item.get("ragged", False),
                    )
                    for item in value["features"]
                ),
            )
        except (KeyError, TypeError, UsageError) as error:
            raise ShardSetError(
                f"This version cannot read the schema of the set: {error}. Install the version of "
                "shardmill that wrote the set, or build it again."
            ) from error
