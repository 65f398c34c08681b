"""The interface of image transforms, and their stages."""

from __future__ import annotations

from typing import Any, Protocol

from shard_format import UsageError

# In the order in which an image passes them; see `reader.transforms`.
STAGES = ("crop", "decoded", "resized", "batch", "values", "layout")

Example = dict[str, Any]  # tensors by name


class Transform(Protocol):
    """One step on an image, or on a batch of them: a pure function of it and of random numbers.

    Parameters are fields of a frozen dataclass; a number that is out of range is a UsageError when
    the transform is made.

    With a method `arrays`, which is to `Steps.apply_arrays` what `__call__` is to `Steps.apply`, a
    stream needs no TensorFlow for it.
    """

    @property
    def stage(self) -> str:
        """One of `STAGES`."""

    @property
    def num_random(self) -> int:
        """How many random numbers it takes for each record."""

    def __call__(self, example: Example, random: Any) -> Example:
        """What the example becomes, in TensorFlow operations.

        Args:
            example: Tensors by name; which, the stage says.
            random: [num_random] float32 in [0, 1); at the stages after the batch, where there is
                one, [batch, num_random].
        """


def require_between(transform: object, name: str, low: float, high: float) -> None:
    """Checks that a parameter of a transform is a number in [low, high].

    Raises:
        UsageError: It is not.
    """
    value = getattr(transform, name)
    # bool is an int to Python; a rotation by True is a slip.
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return
    raise UsageError(
        f"{name} is {value!r} in {type(transform).__name__}. Pass a number in [{low:g}, {high:g}]."
    )


def require_order(transform: object, low: str, high: str) -> None:
    """Checks that one parameter of a transform is at most the other.

    Raises:
        UsageError: It is not.
    """
    values = getattr(transform, low), getattr(transform, high)
    if values[0] > values[1]:
        raise UsageError(
            f"{low} {values[0]!r} exceeds {high} {values[1]!r} in {type(transform).__name__}. "
            "Exchange or correct them."
        )
