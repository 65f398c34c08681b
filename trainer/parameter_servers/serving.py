"""A worker or a parameter server: a TensorFlow server that does what the chief sends it.

It ends when the chief says that the run is over, or when there was no chief for a time. A chief
that was lost and runs again finds it as it was.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import tensorflow as tf

from foundation.errors import UsageError
from trainer.errors import WorkersLost
from trainer.events import OnEvent, ServerStarted
from trainer.workers.cluster import Cluster
from trainer.workers.connectivity import listening, listens

# A Python function of a process has a name in its TensorFlow, which counts them. This one is the
# first, so that the chief can call it here: TensorFlow has no other way to end a server.
END = "pyfunc_0"
_LOOK_SECONDS = 2.0
_ANSWER_SECONDS = 1.0  # in which the chief gets the answer to its call


def serve(cluster: Cluster, limit: float, on_event: OnEvent) -> None:
    """Serves until the run is over.

    Args:
        cluster: Cluster with this process in it.
        limit: Seconds without a chief after which it does not wait longer.
        on_event: Function called with `ServerStarted`.

    Raises:
        UsageError: The port is taken, or this worker has several GPUs.
        WorkersLost: There is no chief.
    """
    job, number = cluster.tasks[cluster.index]
    _choose_device(job)
    with listening(cluster.addresses[cluster.index]):
        pass  # says so if the port is taken; TensorFlow would share it
    over = threading.Event()
    kept = _answer_end(over)
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster.jobs), job_name=job, task_index=number, protocol="grpc"
    )
    chief = cluster.of_job("chief")[0]
    on_event(ServerStarted(cluster.name_of(cluster.index), cluster.name_of(chief)))
    heard = time.monotonic()
    while not over.wait(_LOOK_SECONDS):
        if listens(cluster.addresses[chief]):
            heard = time.monotonic()
        elif time.monotonic() - heard >= limit:
            raise WorkersLost(
                f"{cluster.name_of(chief).capitalize()} was not there for {limit:g} s"
            )
    time.sleep(_ANSWER_SECONDS)
    del server, kept
    sys.stdout.flush()


def _choose_device(job: str) -> None:
    """Leaves a GPU to workers only.

    Raises:
        UsageError: A worker has several.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if job != "worker":
        tf.config.set_visible_devices([], "GPU")
    elif len(gpus) > 1:
        raise UsageError(
            f"This worker sees {len(gpus)} GPUs, and a worker of --strategy parameter_server has "
            "one. Start a worker for each, with CUDA_VISIBLE_DEVICES set to its GPU."
        )


def _answer_end(over: threading.Event) -> Any:
    """Registers the function that the chief calls at the end; it must stay alive."""

    def end() -> Any:
        over.set()
        return np.int64(0)

    with tf.Graph().as_default() as graph:
        token = tf.numpy_function(end, [], tf.int64).op.get_attr("token")
    if token.decode() != END:
        raise RuntimeError(f"{token!r} is not the first Python function of this process")
    return graph
