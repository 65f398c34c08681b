"""Numbers and tensors of a type of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from shard_format.features.base import FeatureKind, Json, described, dimensions, shown, shown_shape


class Tensor(FeatureKind):
    """A number, or a tensor.

    Args:
        dtype: Name of the type in NumPy and in TensorFlow.
        storage: The field of tf.train.Feature, which has no other type of numbers than int64 and
            float32; "bytes_list" of a type that these do not hold.
    """

    makes_tensors = True

    def __init__(self, dtype: str, storage: str) -> None:
        self.dtype, self.storage = dtype, storage
        kind = np.dtype(dtype).kind
        plain: dict[str, Any] = {"b": bool, "f": float}
        self._plain = plain.get(kind, int)
        limits: Any = np.iinfo(dtype) if kind in "iu" else None
        if kind == "f":
            limits = np.finfo(dtype)
        self._least, self._most = self._plain(0), self._plain(1)
        if limits is not None:
            self._least, self._most = self._plain(limits.min), self._plain(limits.max)

    @override
    def checked(self, value: Any, shape: Sequence[int]) -> Any:
        # The usual case, without an array.
        if not shape and type(value) is self._plain and self._least <= value <= self._most:
            return value
        try:
            given = np.asarray(value)
        except (ValueError, OverflowError) as error:  # lists of different lengths
            raise ValueError(f"{shown(value)} is not a tensor") from error
        if given.dtype.kind not in "biuf":
            if given.size or given.dtype.kind != "O":
                raise ValueError(f"{shown(value)} is {_name_of(given, value)}, not {self.dtype}")
        if given.shape == (0,) and len(shape) > 1 and shape[0] == -1:
            given = given.reshape([max(0, size) for size in shape])  # an empty list of rows
        if not fits(given.shape, shape):
            raise ValueError(
                f"{shown(value)} has the shape {list(given.shape)}, not {shown_shape(shape)}"
            )
        array = self._converted(given)
        return array if len(shape) else array.item()

    def _converted(self, given: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The same numbers, of this type.

        Raises:
            ValueError: The type does not hold one of them.
        """
        if given.dtype == self.dtype:
            return given
        with np.errstate(all="ignore"):  # compared behind it
            array = given.astype(self.dtype)
        if array.dtype.kind == "f":  # may be rounded, but not to infinity
            lost = np.isinf(array) & np.isfinite(given)
        else:
            lost = array != given
        if lost.any():
            raise ValueError(f"{given[lost].flat[0]!s} is no {self.dtype}")
        return array

    @override
    def tfds(self, shape: Sequence[int], encoding: str, class_names: Sequence[str]) -> Json:
        tensor = {
            "shape": dimensions(shape),
            "dtype": self.dtype,
            "encoding": encoding or "none",
        }
        return described("tensor_feature", "Tensor", tensor=tensor)


def fits(given: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a tensor of one shape is of another, in which -1 is any size."""
    return len(given) == len(shape) and all(
        size in (-1, own) for own, size in zip(given, shape, strict=True)
    )


def _name_of(array: npt.NDArray[Any], value: Any) -> str:
    return type(value).__name__ if array.dtype.kind == "O" else str(array.dtype)


INT64, FLOAT32 = Tensor("int64", "int64_list"), Tensor("float32", "float_list")
