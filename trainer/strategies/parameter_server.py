"""Variables on parameter servers, and workers that read and update them, each at its own speed.

TF_CONFIG says who they are (`trainer.workers.cluster`); the steps are in
`trainer.parameter_servers`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.workers.cluster import cluster_of_environment

# TensorFlow's own default: a smaller part costs more in calls than it balances.
MIN_PART_BYTES = 256 << 10


def create() -> Any:
    """A ParameterServerStrategy; returns when all processes of the cluster are there.

    A variable is divided along its first axis into at most one part for each parameter server.

    Raises:
        UsageError: TF_CONFIG does not describe such a cluster.
    """
    cluster = cluster_of_environment("parameter_server")
    job, number = cluster.tasks[cluster.index]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.jobs), task_type=job, task_id=number, rpc_layer="grpc"
    )
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
        min_shard_bytes=MIN_PART_BYTES, max_shards=len(cluster.of_job("ps"))
    )
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
