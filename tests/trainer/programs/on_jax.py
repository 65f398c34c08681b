"""Trains tiny models on 8 devices of JAX, which are one CPU: on_jax.py RUN_DIR OPTIONS...

OPTIONS are JSON; "stop_after" is an epoch. Prints a report of each run as JSON, or the text of
its error, or "stopped".
"""

import json
import os
import sys

os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import keras
import numpy as np
import tiny

from shard_format import ShardmillError
from trainer.jax_backend import loop
from trainer.monitoring import records
from trainer.options import TrainOptions
from trainer.run import train_on

records.Records._draw = lambda *arguments: None  # takes longer than the run
kept_bytes = []


class Measured(loop.JaxLoop):
    """Says how many bytes of the weights and the optimizer each device holds, at most."""

    def _keep(self, state):
        super()._keep(state)
        sizes = {}
        for value in [*state[0], *state[2]]:
            for shard in value.addressable_shards:
                sizes[shard.device] = sizes.get(shard.device, 0) + shard.data.nbytes
        kept_bytes[:] = [max(sizes.values())]


loop.JaxLoop = Measured
for number, text in enumerate(sys.argv[2:]):
    given = {"model": "tiny:dense", "image_size": 8, "batch_size": 16, "epochs": 2}
    given |= {"precision": "float32", "run_dir": f"{sys.argv[1]}/{number}", "backend": "jax"}
    given |= json.loads(text)
    stop = tiny.stop_after(given.pop("stop_after", 0))
    try:
        options = TrainOptions("none", **given)
        data = tiny.data(batch_size=options.batch_size, validation=16)
        result = train_on(data, options, stop)
    except tiny.Stopped:
        print(json.dumps("stopped"))
        continue
    except ShardmillError as error:
        print(json.dumps(str(error)))
        continue
    model = keras.models.load_model(result.model_path)
    with open(f"{options.run_dir}/weights.npz", "wb") as file:
        np.savez(file, *model.get_weights())
    final = result.final
    report = {"loss": final.loss, "val_loss": final.val_loss, "scale": final.loss_scale}
    print(json.dumps({**report, "bytes": kept_bytes[0]}))
