"""From the option `augment` to the transforms of a stream, each with its own random numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from foundation.options import check_choice
from reader.lazy_tensorflow import tf
from reader.transforms import AUGMENTATIONS, STAGES, TRANSFORMS, Example, Transform
from shard_format import UsageError

Augment = str | Sequence[str | Transform]

# The element type that a stage must leave behind; the others may leave another one.
_DTYPES = {"decoded": "uint8", "resized": "float32", "values": "float32"}
# Where a transform may change the image's shape.
_RESHAPING = ("decoded", "layout")


def find_transforms(augment: Augment) -> tuple[Transform, ...]:
    """The transforms that an option names, not yet in any order.

    Args:
        augment: Names of `TRANSFORMS` and `AUGMENTATIONS` with commas between them, or a list of
            such names and of transforms.

    Raises:
        UsageError: A name is not known, or something is no transform.
    """
    if isinstance(augment, str):
        augment = [name.strip() for name in augment.split(",")]
    elif not isinstance(augment, Sequence):
        augment = [augment]
    transforms: list[Transform] = []
    for item in augment:
        if isinstance(item, str):
            check_choice("augment", item, [*AUGMENTATIONS, *TRANSFORMS])
            transforms += [TRANSFORMS[name]() for name in AUGMENTATIONS.get(item, (item,))]
        else:
            transforms.append(_checked(item))
    return tuple(transforms)


def _checked(item: Any) -> Transform:
    """An item of a list that is not a name, if it is a transform.

    Raises:
        UsageError: It is not.
    """
    if isinstance(item, type):
        problem, advice = f"The class {item.__name__} is", f"Pass an instance: {item.__name__}()."
    elif not callable(item) or not hasattr(item, "stage") or not hasattr(item, "num_random"):
        problem = f"{item!r} is"
        advice = "Pass names, or objects with stage and num_random, called with (example, random)."
    elif item.stage not in STAGES:
        problem = f"{item!r} has the unknown stage {item.stage!r} and is"
        advice = f"Choose one of {', '.join(STAGES)}."
    elif not isinstance(item.num_random, int) or item.num_random < 0:
        problem = f"{item!r} has num_random={item.num_random!r} and is"
        advice = "Give it an integer of at least 0."
    elif item.stage == "layout" and not hasattr(item, "shape"):
        problem = f"{item!r} of the stage layout has no method shape and is"
        advice = "Give it one like that of ChannelsFirst."
    else:
        return item
    raise UsageError(f"{problem} not a transform in augment of reader.load. {advice}")


@dataclasses.dataclass(frozen=True)
class Steps:
    """The transforms of a stream, in the order of their stages.

    Attributes:
        transforms: In the order in which they are applied.
    """

    transforms: tuple[Transform, ...]

    def __post_init__(self) -> None:
        for before, after in zip(self.transforms, self.transforms[1:], strict=False):
            places = STAGES.index(before.stage), STAGES.index(after.stage)
            if places[0] > places[1]:
                raise UsageError(
                    f"{_name(after)} ({after.stage}) comes after {_name(before)} ({before.stage}) "
                    "in augment of reader.load, against the order of stages "
                    f"({', '.join(STAGES)}). Put {_name(after)} before it."
                )
        crops = [_name(crop) for crop in self.of("crop")]
        if len(crops) > 1:
            raise UsageError(
                f"{' and '.join(crops)} are two crops in augment of reader.load. Leave one out."
            )

    @property
    def num_random(self) -> int:
        """Random numbers that one record takes."""
        return sum(transform.num_random for transform in self.transforms)

    def of(self, stage: str) -> tuple[Transform, ...]:
        """The transforms of a stage."""
        return tuple(item for item in self.transforms if item.stage == stage)

    def apply(self, stage: str, example: Example, random: Any) -> Example:
        """The example after all transforms of one stage.

        Args:
            stage: One of `STAGES`.
            example: What such a stage takes.
            random: [..., num_random] float32: of all stages.

        Raises:
            UsageError: A transform does not give what its stage says.
        """
        used = 0
        for transform in self.transforms:
            begin, used = used, used + transform.num_random
            if transform.stage == stage:
                changed = _called(transform)(dict(example), random[..., begin:used])
                _check_result(transform, example, changed)
                example = changed
        return example

    def apply_arrays(self, stage: str, example: Example, random: Any) -> Example:
        """`apply` of NumPy arrays, at all stages but "decoded" of [n] records at a time.

        A transform may write to the image that it is given at the stage "resized".
        """
        used = 0
        for transform in self.transforms:
            begin, used = used, used + transform.num_random
            if transform.stage == stage:
                own = None if random is None else random[..., begin:used]
                example = transform.arrays(dict(example), own)  # type: ignore[attr-defined]
        return example


def is_of_arrays(transform: Transform) -> bool:
    """Whether a transform works on NumPy arrays."""
    return hasattr(transform, "arrays")


def _called(transform: Transform) -> Any:
    """The transform; one of the user's own may branch on tensors in Python, as in any data set."""
    is_ours = type(transform).__module__.partition(".")[0] == "reader"
    return transform if is_ours or tf.executing_eagerly() else tf.function(transform)


def _check_result(transform: Transform, before: Example, after: Any) -> None:
    stage = transform.stage
    expected = {*before, "box"} if stage == "crop" else set(before)
    if not isinstance(after, dict) or set(after) != expected:
        given = ", ".join(sorted(after)) if isinstance(after, dict) else repr(after)
        raise _wrong(transform, f"a dictionary of {', '.join(sorted(expected))}", given)
    if stage == "crop":
        box = tf.convert_to_tensor(after["box"])
        if box.dtype != tf.int32 or not box.shape[-1:].is_compatible_with([4]):
            raise _wrong(transform, "a box [4] of int32", f"{box.shape} of {box.dtype.name}")
        return
    old, new = before["image"], after["image"]
    dtype = tf.as_dtype(_DTYPES.get(stage, old.dtype))
    if stage != "layout" and new.dtype != dtype:
        raise _wrong(transform, f"images of {dtype.name}", new.dtype.name)
    if stage == "decoded" and not new.shape.is_compatible_with([None, None, 3]):
        raise _wrong(transform, "images of shape [height, width, 3]", str(new.shape))
    if stage not in _RESHAPING and not new.shape.is_compatible_with(old.shape):
        raise _wrong(transform, f"images of shape {old.shape}", str(new.shape))


def _wrong(transform: Transform, rule: str, given: str) -> UsageError:
    return UsageError(
        f"{_name(transform)} of the stage {transform.stage} returned {given}, not {rule}, in "
        "augment of reader.load. Correct its __call__."
    )


def _name(transform: Transform) -> str:
    return type(transform).__name__
