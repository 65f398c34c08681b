"""The interface of kinds of features."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

Json = dict[str, Any]
_MODULE = "tensorflow_datasets.core.features"


class FeatureKind(abc.ABC):
    """What the values of a feature are, how an example stores them, and how TFDS describes them.

    Attributes:
        storage: The field of tf.train.Feature that stores a value, or the values of a list.
        value_shape: Shape of one value; -1 for a dimension that varies.
        dtype: Element type in NumPy; "object" of strings and bytes, which have no other.
        makes_tensors: Whether values have any number of dimensions.
    """

    storage: str
    value_shape: ClassVar[tuple[int, ...]] = ()
    dtype: str = "object"

    makes_tensors: ClassVar[bool] = False

    @property
    def is_number(self) -> bool:
        """Whether values are numbers, so that several are an array; else they are a list."""
        return self.dtype != "object"

    @abc.abstractmethod
    def checked(self, value: Any, shape: Sequence[int]) -> Any:
        """A value of a user as this kind has it.

        Args:
            value: What there is.
            shape: Shape of the value: of numbers that of the whole tensor.

        Raises:
            ValueError: It is something else; says what.
        """

    @abc.abstractmethod
    def tfds(self, shape: Sequence[int], encoding: str, class_names: Sequence[str]) -> Json:
        """One value, in the JSON of features.json of TFDS.

        Args:
            shape: Shape of the value, as in `checked`.
            encoding: How the bytes of an image are encoded, or "bytes" of numbers that are stored
                as the bytes of a tensor.
            class_names: Names of the classes of a label.
        """


def described(module: str, name: str, **content: Any) -> Json:
    """The JSON of a feature: the name of its class in TFDS, and its content."""
    return {"pythonClassName": f"{_MODULE}.{module}.{name}", **content}


def dimensions(shape: Sequence[int]) -> Json:
    """The JSON of a shape."""
    return {"dimensions": [str(size) for size in shape]}


def shown(value: Any) -> str:
    """A value in a message, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def shown_shape(shape: Sequence[int]) -> str:
    """A shape as --keep-columns has it: "[*,4]"; "a scalar" without dimensions."""
    sizes = ",".join("*" if size < 0 else str(size) for size in shape)
    return f"[{sizes}]" if shape else "a scalar"
