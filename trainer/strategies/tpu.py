"""All cores of a Cloud TPU, each with a copy of the model; gradients are summed at every step.

Written against the documentation of TensorFlow 2.21: no TPU was there to run it.
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from foundation.errors import UsageError

# What the documentation of Cloud TPU sets to the name of a TPU; "local" is that of a TPU VM.
_VARIABLE = "TPU_NAME"


def create() -> Any:
    """A TPUStrategy over the TPU that TPU_NAME names, or over that of this machine.

    Raises:
        UsageError: There is none, or it does not answer.
    """
    name = os.environ.get(_VARIABLE, "local")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    # What the resolver raises without a TPU, where it asks the metadata of the cloud too.
    except (tf.errors.OpError, ValueError, RuntimeError, OSError, ImportError) as error:
        raise UsageError(
            f"TensorFlow finds no TPU {name!r} for --strategy tpu: {type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}. Run on a TPU VM with TensorFlow for TPUs, set "
            f"{_VARIABLE} to its name, or pass another --strategy."
        ) from error
