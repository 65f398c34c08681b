"""Images of one colour for each class, streams of them, and models that learn them in seconds.

Used by the tests in their own process, by the programs next to this file in another one, and as
`--model tiny:dense`.
"""

import dataclasses
import json
import os
import signal

import keras
import numpy as np
import tensorflow as tf

from trainer.data import Data
from trainer.models import small_cnn

NUM_CLASSES = 3
NAMES = ("red", "green", "blue")


class Stopped(Exception):
    """Raised by a test within a run, as a crash would be."""


def stop_after(epoch):
    """Called with the events of a run: raises `Stopped` at the end of that epoch."""

    def on_event(event):
        if getattr(event, "epoch", None) == epoch and hasattr(event, "val_loss"):
            raise Stopped

    return on_event


@dataclasses.dataclass(frozen=True)
class Info:
    records: int


@dataclasses.dataclass(frozen=True)
class Stream:
    dataset: tf.data.Dataset
    steps_per_epoch: int
    info: Info
    first_step: int = 0

    def state(self, *, global_step):
        return {"step": global_step}


def make_images(count: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise with one channel lifted: images [count, size, size, 3] uint8, labels [count] int64."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, NUM_CLASSES, count)
    images = generator.integers(0, 156, (count, size, size, 3))
    images += 60 * np.eye(NUM_CLASSES, dtype=np.int64)[labels][:, None, None, :]
    return images.astype(np.uint8), labels.astype(np.int64)


def endless(count: int, size: int, batch_size: int, state: dict | None = None) -> Stream:
    arrays = tf.data.Dataset.from_tensor_slices(make_images(count, size, seed=0))
    first_step = state["step"] if state else 0
    dataset = arrays.repeat().batch(batch_size, drop_remainder=True).skip(first_step)
    return Stream(dataset, count // batch_size, Info(count), first_step)


def finite(count: int, size: int, batch_size: int, seed: int = 1) -> Stream:
    dataset = tf.data.Dataset.from_tensor_slices(make_images(count, size, seed)).batch(batch_size)
    return Stream(dataset, -(-count // batch_size), Info(count))


def data(size: int = 8, batch_size: int = 8, train: int = 32, validation: int = 13) -> Data:
    """A data set whose validation split does not divide into whole batches."""
    return Data(
        root_hash="0" * 64,
        class_names=NAMES,
        open_training=lambda state: endless(train, size, batch_size, state),
        validation=finite(validation, size, batch_size),
    )


def ends_on_the_chief(input_shape, num_classes):
    """Kills the chief where it builds the model, and another worker waits for its variables."""
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return dense(input_shape, num_classes)


def dense(input_shape, num_classes):
    """No BatchNorm and no dropout: what it learns depends on the batch as a whole only."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(input_shape),
            layers.Rescaling(1 / 127.5, offset=-1.0),
            layers.Flatten(),
            layers.Dense(16, activation="tanh"),
            layers.Dense(num_classes),
        ]
    )


def with_norm(input_shape, num_classes):
    """BatchNorm and dropout, whose state must survive a checkpoint too."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(input_shape),
            layers.Rescaling(1 / 127.5, offset=-1.0),
            layers.Conv2D(8, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.3),
            layers.Dense(num_classes, activation="softmax", dtype="float32"),
        ]
    )


class Normalized(keras.layers.Layer):
    """Holds its batch normalization itself, as layers of users do."""

    def __init__(self, **options):
        super().__init__(**options)
        self.norms = [keras.layers.BatchNormalization()]

    def build(self, input_shape):
        self.norms[0].build(input_shape)

    def call(self, inputs, training=False):
        return self.norms[0](inputs, training=training)


def norm_within_a_layer(input_shape, num_classes):
    return keras.Sequential(
        [
            keras.Input(input_shape),
            Normalized(),
            keras.layers.Flatten(),
            keras.layers.Dense(num_classes),
        ]
    )


def small_cnn_without_dropout(input_shape, num_classes):
    """The default model for images; dropout draws one mask for each device's part of a batch."""
    return _without_dropout(small_cnn.build(input_shape, num_classes))


def with_norm_without_dropout(input_shape, num_classes):
    return _without_dropout(with_norm(input_shape, num_classes))


def _without_dropout(model):
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    return model


def branched(input_shape, num_classes):
    """A layer that is called twice, a mask, a penalty, a model within, and tensors that skip."""
    layers = keras.layers
    inputs = keras.Input(input_shape)
    x = layers.Reshape((64, 3))(inputs / 255.0)
    x = layers.Masking(0.5)(x)  # noise is never so: all are kept, but the mask is handed on
    x = layers.LSTM(6, return_sequences=True)(x)
    x = layers.Dense(8, kernel_regularizer=keras.regularizers.L2(0.01))(x)
    twice = layers.Dense(8, activation="tanh")
    y = twice(layers.LayerNormalization()(twice(x)))
    inner = keras.Sequential([keras.Input((64, 8)), layers.Dense(8), layers.Dropout(0.1)])
    z = layers.Add()([inner(y), x])
    z = layers.Dropout(0.2)(layers.GlobalAveragePooling1D()(z))
    z = layers.Concatenate()([z, layers.GlobalAveragePooling1D()(x)])
    return keras.Model(inputs, layers.Dense(num_classes)(z))


def overflowing(input_shape, num_classes):
    """Gradients of about a hundred: times a loss scale of 2**15 they exceed float16."""
    layers = keras.layers
    inputs = keras.Input(input_shape)
    outputs = layers.Dense(num_classes, kernel_initializer="zeros")(layers.Flatten()(inputs))
    return keras.Model(inputs, outputs)


class WithCode(keras.Model):
    """A model with code of its own in place of a graph of layers."""

    def __init__(self, num_classes, **options):
        super().__init__(**options)
        self.num_classes = num_classes
        self.last = keras.layers.Dense(num_classes)

    def call(self, images):
        return self.last(keras.ops.mean(images, axis=(1, 2)))

    def get_config(self):
        return {"num_classes": self.num_classes}


def with_code(input_shape, num_classes):
    return WithCode(num_classes)


def half_softmax(input_shape, num_classes):
    return keras.Sequential(
        [
            keras.Input(input_shape),
            keras.layers.Flatten(),
            keras.layers.Dense(num_classes, activation="softmax"),
        ]
    )


def one_too_many(input_shape, num_classes):
    return dense(input_shape, num_classes + 1)


def no_weights(input_shape, num_classes):
    return keras.Sequential(
        [keras.Input(input_shape), keras.layers.GlobalAveragePooling2D(), keras.layers.Softmax()]
    )


def no_model(input_shape, num_classes):
    return [input_shape, num_classes]


class Opaque(keras.layers.Layer):
    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, images):
        return self.function(images)


def not_serializable(input_shape, num_classes):
    layers = [keras.Input(input_shape), Opaque(lambda images: images)]
    return keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(num_classes)])


def fails(input_shape, num_classes):
    raise RuntimeError("the moon is full")


not_callable = 3


def in_python(input_shape, num_classes):
    """Calls Python in its graph, which XLA cannot compile."""

    def halve(images):
        return tf.ensure_shape(
            tf.numpy_function(lambda x: x / 2, [images], tf.float32), [None, *input_shape]
        )

    layers = [keras.Input(input_shape), keras.layers.Lambda(halve), keras.layers.Flatten()]
    return keras.Sequential([*layers, keras.layers.Dense(num_classes)])


def wide(input_shape, num_classes):
    """A kernel of 768 KiB, which parameter servers divide."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(input_shape),
            layers.Rescaling(1 / 127.5, offset=-1.0),
            layers.Flatten(),
            layers.Dense(1024, activation="tanh"),
            layers.BatchNormalization(),
            layers.Dropout(0.1),
            layers.Dense(num_classes),
        ]
    )
