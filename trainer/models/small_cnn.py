"""A small residual network for small sets: it learns from a few hundred photographs on a CPU."""

from __future__ import annotations

from typing import Any

# Channels of the four stages. Each halves the resolution.
WIDTHS = (24, 48, 96, 192)

# A few hundred images are ten steps an epoch: with Keras's default of 0.99 the moving averages
# that validation uses would still be near their start after several epochs.
NORM_MOMENTUM = 0.9


def build(input_shape: tuple[int, int, int], num_classes: int) -> Any:
    """The network from [batch, height, width, 3] in [0, 255] to [batch, num_classes] logits."""
    import keras

    layers = keras.layers
    pixels = keras.Input(input_shape, name="pixels")
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(pixels)
    x = _conv_norm_relu(x, WIDTHS[0], kernel_size=5, strides=2)
    for stage, width in enumerate(WIDTHS):
        if stage > 0:
            x = layers.MaxPooling2D(padding="same")(x)
        x = _conv_norm_relu(x, width)
        x = _residual(x, width)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(pixels, layers.Dense(num_classes, name="logits")(x), name="small_cnn")


def _conv_norm_relu(x: Any, width: int, kernel_size: int = 3, strides: int = 1) -> Any:
    import keras

    x = _conv(x, width, kernel_size, strides)
    x = keras.layers.BatchNormalization(momentum=NORM_MOMENTUM)(x)
    return keras.layers.Activation("relu")(x)


def _residual(x: Any, width: int) -> Any:
    import keras

    y = _conv_norm_relu(x, width)
    y = _conv(y, width, kernel_size=3, strides=1)
    # Starting at zero, the branch adds nothing at first, and a high learning rate stays stable.
    y = keras.layers.BatchNormalization(momentum=NORM_MOMENTUM, gamma_initializer="zeros")(y)
    return keras.layers.Activation("relu")(keras.layers.Add()([x, y]))


def _conv(x: Any, width: int, kernel_size: int, strides: int) -> Any:
    import keras

    return keras.layers.Conv2D(
        width,
        kernel_size,
        strides=strides,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
    )(x)
