"""Several processes, on one or many machines, each with a copy of the model on each of its devices.

Gradients are summed over all devices of all processes at every step. TF_CONFIG says who they are,
see `trainer.workers.cluster`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.workers.cluster import cluster_of_environment


def create() -> Any:
    """A MultiWorkerMirroredStrategy; returns when all processes of the cluster are there.

    Raises:
        UsageError: TF_CONFIG does not describe a cluster.
    """
    cluster = cluster_of_environment()
    job, number = cluster.tasks[cluster.index]
    # Not TensorFlow's own reading of TF_CONFIG: it refuses what some schedulers write there.
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.jobs),
        task_type=job,
        task_id=number,
        rpc_layer="grpc",
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
    )
    implementation = tf.distribute.experimental.CommunicationImplementation[collectives()]
    return tf.distribute.MultiWorkerMirroredStrategy(
        cluster_resolver=resolver,
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=implementation
        ),
    )


def collectives() -> str:
    """How gradients are summed: "NCCL" between GPUs, "RING" (over gRPC) between CPUs."""
    return "NCCL" if tf.config.list_physical_devices("GPU") else "RING"
