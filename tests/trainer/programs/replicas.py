"""Trains on N logical CPU devices: replicas.py N OPTIMIZER; prints JSON with the final weights."""

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

num_replicas = int(sys.argv[1])
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * num_replicas,
)
events = []
with tempfile.TemporaryDirectory() as directory:
    options = TrainOptions(
        data="none",
        run_dir=f"{directory}/run",
        model=sys.argv[2],
        optimizer=sys.argv[3],
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
print(
    json.dumps(
        {
            "num_replicas": events[0].num_replicas,
            "weights": [weight.numpy().tolist() for weight in model.weights],
            "val_loss": result.final.val_loss,
            "val_accuracy": result.final.val_accuracy,
            "loss": result.final.loss,
        }
    )
)
