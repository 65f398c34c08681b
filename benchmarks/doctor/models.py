"""Networks for the benchmark, by package.module:function."""

from __future__ import annotations

from typing import Any

_UNITS = 4096
_SIDE = 8  # pixels that an image is averaged to


def tiny(input_shape: tuple[int, int, int], num_classes: int) -> Any:
    """Next to no work, so that the input is what takes time."""
    import keras

    inputs = keras.Input(input_shape)
    values = keras.layers.AveragePooling2D(input_shape[0] // _SIDE)(inputs)
    values = keras.layers.Rescaling(1 / 255)(keras.layers.Flatten()(values))
    return keras.Model(inputs, keras.layers.Dense(num_classes)(values))


def wide(input_shape: tuple[int, int, int], num_classes: int) -> Any:
    """Little work for an example, much for the optimizer: 17 million weights."""
    import keras

    inputs = keras.Input(input_shape)
    values = keras.layers.AveragePooling2D(input_shape[0] // _SIDE)(inputs)
    values = keras.layers.Rescaling(1 / 255)(keras.layers.Flatten()(values))
    for _ in range(2):
        values = keras.layers.Dense(_UNITS, activation="relu")(values)
    return keras.Model(inputs, keras.layers.Dense(num_classes)(values))
