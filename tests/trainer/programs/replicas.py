"""Trains on N logical CPU devices: replicas.py N; prints JSON with the results by optimizer."""

import json
import os
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import keras
import tensorflow as tf
import tiny

from trainer.options import TrainOptions
from trainer.run import train_on


def results(optimizer: str) -> dict[str, object]:
    events = []
    with tempfile.TemporaryDirectory() as directory:
        options = TrainOptions(
            data="none",
            run_dir=f"{directory}/run",
            model="tiny:dense",
            optimizer=optimizer,
            learning_rate=0.05,
            image_size=8,
            batch_size=8,
            epochs=3,
            precision="float32",
            strategy="mirrored",
            label_smoothing=0.1,
            seed=3,
        )
        result = train_on(tiny.data(), options, events.append)
        model = keras.models.load_model(result.model_path)
    return {
        "num_replicas": events[0].num_replicas,
        "weights": [weight.numpy().tolist() for weight in model.weights],
        "val_loss": result.final.val_loss,
        "val_accuracy": result.final.val_accuracy,
        "loss": result.final.loss,
    }


tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * int(sys.argv[1]),
)
print(json.dumps({optimizer: results(optimizer) for optimizer in ("sgd", "adamw")}))
