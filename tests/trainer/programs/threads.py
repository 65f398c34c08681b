"""Prints the threads of TensorFlow's pools after `configure_devices`: threads.py INTRA INTER."""

import sys

import tensorflow as tf

from trainer import TrainOptions
from trainer.devices import configure_devices

intra, inter = map(int, sys.argv[1:])
configure_devices(TrainOptions("set", "run", intra_op_threads=intra, inter_op_threads=inter))
tf.constant(1).numpy()
print(tf.config.threading.get_intra_op_parallelism_threads())
print(tf.config.threading.get_inter_op_parallelism_threads())
