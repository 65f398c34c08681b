"""mixed_float16 on three stages, with an overflow injected into the gradient of one of them.

Every stage has a weight of 1. The gradient of the n-th is infinite in a micro-batch with a pixel
of 200 + n. Prints JSON: after every step, the loss scale and the weights.
"""

import json
import os

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import keras
import numpy as np
import tensorflow as tf

from trainer.loop import StepOptions
from trainer.objective import Objective
from trainer.optimization.optimizers import updating_in_place
from trainer.pipeline.calls import calls_of
from trainer.pipeline.loop import PipelineLoop
from trainer.pipeline.stages import Stages
from trainer.strategies.pipeline import create, rows_of_devices

NUM_STAGES = 3


class Fragile(keras.layers.Layer):
    def __init__(self, number, **options):
        super().__init__(**options)
        self.number = number

    def build(self, input_shape):
        self.weight = self.add_weight(shape=(1,), initializer="ones", dtype="float32")

    def call(self, images):
        @tf.custom_gradient
        def apply(images, weight):
            is_bad = tf.reduce_any(abs(images - 200.0 - self.number) < 0.5)

            def gradient(upstream):
                slope = tf.reduce_sum(tf.abs(upstream))
                slope = tf.where(is_bad, tf.constant(np.inf, tf.float32), slope)
                return upstream * weight, tf.reshape(slope, [1])

            return images * weight, gradient

        return apply(images, tf.convert_to_tensor(self.weight))


tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * NUM_STAGES
)
layers = [Fragile(number, dtype="float32") for number in range(NUM_STAGES)]
ending = [keras.layers.GlobalMaxPooling2D(), keras.layers.Softmax()]
model = keras.Sequential([keras.Input((2, 2, 3)), *layers, *ending])
objective = Objective(model)
stages = Stages(calls_of(objective.body), range(NUM_STAGES), rows_of_devices(NUM_STAGES))
stages.move(model.variables)
optimizer = keras.optimizers.LossScaleOptimizer(
    keras.optimizers.SGD(1e-4), initial_scale=1024.0, dynamic_growth_steps=2
)
optimizer.build(model.trainable_variables)
loop = PipelineLoop(
    stages,
    2,
    False,
    strategy=create(),
    model=model,
    optimizer=updating_in_place(optimizer),
    options=StepOptions(2),
    objective=objective,
)
good = np.full((2, 2, 3), 10.0, np.float32)
bad = [good + 190.0 + number for number in range(NUM_STAGES)]
steps = [[good, good], [bad[0], good], [good, bad[1]], [bad[2], good], [good, good], [good, good]]
dataset = tf.data.Dataset.from_tensor_slices((np.stack(steps), np.zeros((len(steps), 2), np.int64)))
batches = iter(loop.distribute(dataset))
rows = []
for _ in steps:
    loop.train(batches, 1, lambda step, totals: None)
    rows.append(
        {
            "scale": loop.loss_scale,
            "weights": [float(layer.weight.numpy()[0]) for layer in layers],
            "devices": [layer.weight.value.device.rpartition(":")[2] for layer in layers],
        }
    )
print(json.dumps(rows))
