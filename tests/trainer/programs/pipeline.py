"""Trains tiny models on logical CPU devices: pipeline.py COUNT RUN_DIR OPTIONS...

OPTIONS are JSON; "stop_after" is an epoch. Prints a report of each run as JSON, or the text of
its error, or "stopped".
"""

import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import keras
import numpy as np
import tensorflow as tf
import tiny

from shard_format import ShardmillError
from trainer.events import Notice
from trainer.monitoring import records
from trainer.options import TrainOptions
from trainer.run import train_on

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * int(sys.argv[1]),
)
records.Records._draw = lambda *arguments: None  # takes longer than the run
for number, text in enumerate(sys.argv[3:]):
    given = {"model": "tiny:dense", "image_size": 8, "batch_size": 16, "epochs": 2}
    given |= {"precision": "float32", "run_dir": f"{sys.argv[2]}/{number}"} | json.loads(text)
    stop = tiny.stop_after(given.pop("stop_after", 0))
    events = []

    def on_event(event, events=events, stop=stop):
        events.append(event)
        stop(event)

    options = TrainOptions("none", **given)
    data = tiny.data(batch_size=options.batch_size)
    try:
        result = train_on(data, options, on_event)
    except tiny.Stopped:
        print(json.dumps("stopped"))
        continue
    except ShardmillError as error:
        print(json.dumps(str(error)))
        continue
    model = keras.models.load_model(result.model_path)
    with open(f"{options.run_dir}/weights.npz", "wb") as file:
        np.savez(file, *model.get_weights())
    notices = [event.text for event in events if isinstance(event, Notice)]
    final = result.final
    print(json.dumps({"loss": final.loss, "val_loss": final.val_loss, "notices": notices}))
