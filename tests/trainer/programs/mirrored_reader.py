"""Trains on a shard set with two replicas: mirrored_reader.py SET RUN_DIR; prints the history."""

import dataclasses
import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

from trainer import TrainOptions, train

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
options = TrainOptions(
    data=sys.argv[1],
    run_dir=sys.argv[2],
    model="tiny:with_norm",
    image_size=8,
    batch_size=8,
    epochs=2,
    precision="mixed_bfloat16",
    strategy="mirrored",
)
print(json.dumps([dataclasses.asdict(epoch) for epoch in train(options).history]))
