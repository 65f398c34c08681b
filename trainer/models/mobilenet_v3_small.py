"""MobileNetV3-Small of keras.applications, untrained: 1.5 million weights, quick on a CPU."""

from __future__ import annotations

from typing import Any


def build(input_shape: tuple[int, int, int], num_classes: int) -> Any:
    """The network from [batch, height, width, 3] in [0, 255] to [batch, num_classes] logits.

    Its own preprocessing layers scale the pixels.
    """
    import keras

    return keras.applications.MobileNetV3Small(
        input_shape=input_shape,
        weights=None,
        classes=num_classes,
        classifier_activation=None,
    )
