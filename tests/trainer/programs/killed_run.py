"""Trains on a shard set: killed_run.py SET RUN_DIR DEVICES MOMENT; kills itself at MOMENT.

MOMENT is one of

    never
    train:2:3        at least 3 steps of epoch 2 are done
    validation:2:1   at least 1 step of its validation is done
    recording:4      the 4th checkpoint of this process is written, and not yet named the latest
    history:2        the history has epoch 2, the checkpoint not yet

Every call into the graph is followed by a checkpoint. Prints JSON: the place where it began.
"""

import json
import os
import signal
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

from trainer import RunStarted, StepsDone, TrainOptions, records, run_dir, train

data, directory, devices, moment = sys.argv[1:]
kind, *numbers = moment.split(":")
numbers = list(map(int, numbers))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def on_event(event):
    if isinstance(event, RunStarted):
        print(json.dumps([event.first_epoch, event.first_step]), flush=True)
    if isinstance(event, StepsDone) and (event.phase, event.epoch) == (kind, *numbers[:1]):
        if event.step >= numbers[1]:
            die()


def dying(function, last):
    """The function, which does not return the time that its arguments are `last`."""
    calls = 0

    def call(*arguments):
        nonlocal calls
        calls += 1
        if last(calls, arguments):
            die()
        return function(*arguments)

    return call


manager = tf.train.CheckpointManager
if kind == "recording":  # a checkpoint is recorded twice: before and after old ones are deleted
    record = dying(manager._record_state, lambda calls, _: calls == 2 * numbers[0] - 1)
    manager._record_state = lambda self: record(self)
if kind == "history":
    written = dying(lambda *_: None, lambda _, arguments: len(arguments[1]) == numbers[0])
    write = run_dir.write_history
    run_dir.write_history = lambda *arguments: (write(*arguments), written(*arguments))

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * int(devices),
)
records.Records._draw = lambda *arguments: None  # takes longer than the run
options = TrainOptions(
    data=data,
    run_dir=directory,
    model="tiny:with_norm",
    image_size=8,
    batch_size=8,
    epochs=3,
    precision="float32",
    augment="strong",
    strategy="mirrored" if int(devices) > 1 else "default",
    checkpoint_minutes=1e-9,
    deterministic=True,
)
train(options, on_event)
