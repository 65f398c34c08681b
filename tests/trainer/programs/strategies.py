"""Trains under strategies on 2 logical CPU devices: strategies.py NAME...; prints JSON by name."""

import json
import os
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf
import tiny

from shard_format import UsageError
from trainer.options import TrainOptions
from trainer.run import train_on


def result(strategy: str, model: str = "tiny:dense", precision: str = "float32") -> object:
    events = []
    with tempfile.TemporaryDirectory() as directory:
        options = TrainOptions(
            data="none",
            run_dir=f"{directory}/run",
            model=model,
            image_size=8,
            batch_size=8,
            epochs=2,
            precision=precision,
            strategy=strategy,
        )
        try:
            final = train_on(tiny.data(), options, events.append).final
        except UsageError as error:
            return str(error)
    return {
        "num_replicas": events[0].num_replicas,
        "precision": events[0].precision,
        "losses": [final.loss, final.val_loss],
    }


tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
results = {name: result(name) for name in sys.argv[1:]}
results["norm"] = result("central_storage", "tiny:with_norm", "auto")
results["float16"] = result("central_storage", precision="mixed_float16")
results["tpu"] = result("tpu")
print(json.dumps(results))
