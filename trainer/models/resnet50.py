"""ResNet-50 of keras.applications, untrained: 23.6 million weights."""

from __future__ import annotations

from typing import Any


def build(input_shape: tuple[int, int, int], num_classes: int) -> Any:
    """The network from [batch, height, width, 3] in [0, 255] to [batch, num_classes] logits.

    keras.applications leaves the scaling of ResNet to its caller, so it is put in front here:
    pixels go to [-1, 1]. The channel means of ImageNet would be of use to pretrained weights only.
    """
    import keras

    network = keras.applications.ResNet50(
        input_shape=input_shape,
        weights=None,
        classes=num_classes,
        classifier_activation=None,
    )
    pixels = keras.Input(input_shape, name="pixels")
    scaled = keras.layers.Rescaling(1 / 127.5, offset=-1.0)(pixels)
    return keras.Model(pixels, network(scaled), name="resnet50")
