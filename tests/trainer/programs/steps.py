"""Trains tiny on 2 logical CPU devices: steps.py RUN_DIR OPTIONS; OPTIONS are JSON."""

import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf
import tiny

from trainer.monitoring import records
from trainer.options import TrainOptions
from trainer.run import train_on

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
records.Records._draw = lambda *arguments: None  # takes longer than the run
options = TrainOptions("none", sys.argv[1], **json.loads(sys.argv[2]))
train_on(tiny.data(options.image_size), options)
