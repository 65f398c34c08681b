"""How bright a pixel looks."""

from __future__ import annotations

from typing import Any

WEIGHTS = (0.299, 0.587, 0.114)  # ITU-R BT.601, luma; Pillow's mode "L"


def luminance(image: Any) -> Any:
    """[..., 3] float32 red, green and blue -> [..., 1] float32 of the same range."""
    red, green, blue = WEIGHTS
    # Three slices take a third of the time of a product and a sum over the last axis.
    return image[..., 0:1] * red + image[..., 1:2] * green + image[..., 2:3] * blue
