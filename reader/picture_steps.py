"""Whether the transforms of pictures, the sizes and the normalization fit together."""

from __future__ import annotations

from reader.augmentation import Steps
from reader.normalization import Normalization
from reader.options import ReadOptions
from shard_format import UsageError


def with_normalization(steps: Steps, normalization: Normalization | None) -> Steps:
    """With the normalization that was asked for by name, the last of its stage."""
    if normalization is None:
        return steps
    layouts = steps.of("layout")
    before = steps.transforms[: len(steps.transforms) - len(layouts)]
    return Steps((*before, normalization, *layouts))


def normalization_of(steps: Steps) -> Normalization | None:
    """The one among the transforms.

    Raises:
        UsageError: There are two.
    """
    found = [item for item in steps.of("values") if isinstance(item, Normalization)]
    if len(found) > 1:
        raise UsageError(
            f"pictures are normalized once, got {len(found)} normalizations in reader.load. "
            'Pass normalize="none", or leave Normalization out of augment.'
        )
    return found[0] if found else None


def check_sizes(steps: Steps, options: ReadOptions, size: tuple[int | None, int | None]) -> None:
    """Returns if a picture that is to be resized is cropped before, and no other one.

    Args:
        steps: The transforms.
        options: What the caller asked for.
        size: Of the pictures that are not resized; Nones where sizes differ.

    Raises:
        UsageError: It is not.
    """
    has_crop = bool(steps.of("crop"))
    if has_crop and options.image_size is None:
        raise UsageError(
            f"augment={options.augment!r} needs an image_size, got None in reader.load. "
            'Give one, such as image_size=224, or pass augment="none".'
        )
    fixed = [type(item).__name__ for item in (*steps.of("resized"), *steps.of("batch"))]
    if fixed and None in size:
        raise UsageError(
            f"{', '.join(fixed)} in augment needs pictures of one size, got image_size=None and "
            "stored sizes that differ in reader.load. Give an image_size, such as image_size=224."
        )
    if not has_crop and options.image_size is not None:
        raise UsageError(
            "the first transform must be a crop where there is an image_size, got "
            f"augment={options.augment!r} in reader.load. Begin with center_crop or "
            "random_resized_crop, or leave image_size out."
        )
