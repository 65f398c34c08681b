"""A training with plain `model.fit` that is killed at a step, for tests: arguments as JSON.

It prints the history and a hash of all variables when it ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from typing import Any

import keras
import numpy as np

import reader
import reader.keras


class Kill(keras.callbacks.Callback):
    """Kills the process when so many steps of this run were done, or the epoch ends behind them."""

    def __init__(self, steps: int, *, at_end: bool) -> None:
        super().__init__()
        self._left, self._at_end = steps, at_end

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._left -= 1
        if not self._left and not self._at_end:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def model_of(classes: int) -> keras.Model:
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.2, seed=3),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(classes, activation="softmax"),
        ]
    )
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=64.0)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main() -> None:
    asked = json.loads(sys.argv[1])
    face = asked["face"]
    stream = reader.load(
        asked["set"], batch_size=10, image_size=8, augment="standard", seed=4, cache="off"
    )
    callbacks = []
    if asked["backup"]:
        save_freq = asked["save_freq"]
        if asked["callback"] == "keras":
            own = keras.callbacks.BackupAndRestore(asked["backup"], save_freq=save_freq)
        else:
            own = reader.keras.Backup(asked["backup"], stream, save_freq=save_freq)
        callbacks.append(own)
    if asked["kill"]:
        callbacks.append(Kill(asked["kill"], at_end=asked["at_end"]))
    if asked["strategy"] == "mirrored":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        scope = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
        with scope.scope():
            model = model_of(stream.info.num_classes)
    else:
        model = model_of(stream.info.num_classes)
    history = model.fit(
        stream.dataset if face == "dataset" else getattr(stream, face)(),
        steps_per_epoch=stream.steps_per_epoch,
        epochs=asked["epochs"],
        callbacks=callbacks,
        verbose=0,
    )
    content = hashlib.sha256()
    for variable in (*model.variables, *model.optimizer.variables):
        content.update(np.asarray(variable).tobytes())
    print(json.dumps({"history": history.history, "variables": content.hexdigest()}))


if __name__ == "__main__":
    main()
