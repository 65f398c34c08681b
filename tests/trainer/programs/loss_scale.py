"""mixed_float16 on two replicas, with an overflow injected into the gradient of one of them.

The model's only weight is 1. Its gradient is infinite on a replica that sees an image of 255s.
Prints JSON: after every step, the loss scale and the weight on each replica.
"""

import json
import os

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import keras
import numpy as np
import tensorflow as tf

from trainer.loop import Loop, StepOptions
from trainer.strategies import STRATEGIES

BAD = 255.0


@tf.custom_gradient
def overflow_on_bad(images, weight):
    is_bad = tf.reduce_any(images == BAD)

    def gradient(upstream):
        grown = tf.where(is_bad, tf.constant(np.inf, tf.float32), tf.reduce_sum(tf.abs(upstream)))
        return tf.zeros_like(images), tf.reshape(grown, [1])

    return tf.reduce_mean(images, axis=(1, 2)) * weight / 255.0, gradient


class Fragile(keras.layers.Layer):
    def build(self, input_shape):
        self.weight = self.add_weight(shape=(1,), initializer="ones", dtype="float32")

    def call(self, images):
        return keras.ops.softmax(overflow_on_bad(images, self.weight.value))


tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = STRATEGIES["mirrored"]()
with strategy.scope():
    model = keras.Sequential([keras.Input((2, 2, 3)), Fragile(dtype="float32")])
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=1024.0, dynamic_growth_steps=2
    )
    optimizer.build(model.trainable_variables)
loop = Loop(strategy, model, optimizer, StepOptions(2))

# The first half of a global batch goes to replica 0, the second half to replica 1.
good, bad = np.full((2, 2, 3), 10.0, np.float32), np.full((2, 2, 3), BAD, np.float32)
steps = [[good, good], [bad, good], [good, bad], [good, good], [good, good]]
dataset = tf.data.Dataset.from_tensor_slices((np.stack(steps), np.zeros((5, 2), np.int64)))
batches = iter(loop.distribute(dataset))
rows = []
for _ in steps:
    loop.train(batches, 1, lambda step, totals: None)
    rows.append(
        {
            "scale": loop.loss_scale,
            "applied": int(optimizer.iterations.numpy()),
            "weights": [
                float(value[0])
                for value in strategy.experimental_local_results(model.trainable_weights[0].value)
            ],
        }
    )
print(json.dumps(rows))
