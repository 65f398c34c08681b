"""What the workers of a run agree on: decisions of the chief, signals, and its variables.

A step is the same on all workers only if all of them take it. So whatever one worker would decide
by its clock, its disk or its signals is decided by the chief, or by any of them, and sent to all
between two steps. One message takes about a millisecond.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from foundation.errors import ShardmillError
from trainer.workers.cluster import Cluster

_SMALL = 256  # int32 values that a message begins with, two of them its length
_LARGE = 1 << 20  # int32 values of a piece of the rest: 4 MiB


class Team:
    """The workers of a run, seen from one of them; a run of one process is a team of one.

    Args:
        strategy: The tf.distribute.Strategy.
        cluster: The workers; None for one process.
        collectives: How gradients are summed over workers: "RING" or "NCCL"; empty for one process.
    """

    def __init__(
        self, strategy: Any, cluster: Cluster | None = None, collectives: str = ""
    ) -> None:
        self.strategy = strategy
        self.collectives = collectives
        self._cluster = cluster

    @property
    def index(self) -> int:
        """Index of this worker, in [0, size)."""
        return self._cluster.index if self._cluster else 0

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self._cluster.addresses) if self._cluster else 1

    @property
    def index_on_host(self) -> int:
        """Index of this worker among those whose addresses have the same host."""
        if self._cluster is None:
            return 0
        hosts = [address.rpartition(":")[0] for address in self._cluster.addresses]
        return hosts[: self.index].count(hosts[self.index])

    @property
    def is_chief(self) -> bool:
        """Whether this worker decides, and writes the files of the run."""
        return self.index == 0

    @property
    def num_workers(self) -> int:
        """Processes that compute steps."""
        return self.size

    @property
    def num_parameter_servers(self) -> int:
        """Processes that hold the variables for others."""
        return 0

    @property
    def is_settled(self) -> bool:
        """Whether no step is under way, so that the state is that of a place between two steps."""
        return True

    def distribute(self, stream: Any, batch_size: int) -> Any:
        """The batches of a stream, each divided among the devices of this worker.

        Args:
            stream: Stream of this worker's part of every batch; a team of one has whole batches.
            batch_size: Examples of a batch over all workers.
        """
        dataset = stream.dataset
        if self.size == 1:
            return self.strategy.experimental_distribute_dataset(dataset)
        replicas = self.strategy.num_replicas_in_sync
        if replicas > self.size:
            dataset = dataset.rebatch(batch_size // replicas)
        return self.strategy.distribute_datasets_from_function(lambda _: dataset)

    def from_chief(self, compute: Callable[[], Any]) -> Any:
        """What the chief computed, on all workers; only there it is computed.

        Args:
            compute: Gives a value that JSON can hold.

        Raises:
            ShardmillError: `compute` raised one; it is raised on all workers.
        """
        if self._cluster is None or self.size == 1:
            return compute()
        message, failure = "", None
        if self.is_chief:
            try:
                message = json.dumps({"value": compute()})
            except ShardmillError as error:
                failure = error
                message = json.dumps({"error": str(error), "exit_code": error.exit_code})
        answer = json.loads(self._sent(message.encode()))
        if failure is not None:
            raise failure
        if "error" in answer:
            raised = ShardmillError(f"Reported by {self._cluster.name_of(0)}: {answer['error']}")
            raised.exit_code = answer["exit_code"]
            raise raised
        return answer["value"]

    def greatest(self, number: int) -> int:
        """The greatest of the numbers that the workers pass, each in [0, 2**31)."""
        if self.size == 1:
            return number
        numbers = np.zeros(self.size, np.int32)
        numbers[self.index] = number
        return int(self._sum(numbers).max())

    def of_chief(self, number: int) -> int:
        """The number that the chief passes, in [0, 2**31)."""
        if self.size == 1:
            return number
        return int(self._sum(np.array([number if self.is_chief else 0], np.int32))[0])

    def take_from_chief(self, variables: Iterable[Any]) -> None:
        """Gives Keras variables the chief's values, to the bit."""
        if self.size == 1:
            return
        variables = list(variables)
        values = [np.asarray(variable.value) for variable in variables]
        data = self._sent(b"".join(value.tobytes() for value in values) if self.is_chief else b"")
        start = 0
        for variable, value in zip(variables, values, strict=True):
            part = data[start : start + value.nbytes]
            start += value.nbytes
            variable.assign(np.frombuffer(part, value.dtype).reshape(value.shape))

    def _sent(self, data: bytes) -> bytes:
        """The chief's bytes, on all workers."""
        head = np.zeros(_SMALL, np.int32)
        if self.is_chief:
            head[0] = len(data) % (1 << 31)
            head[1] = len(data) >> 31
            short = data[: 4 * (_SMALL - 2)]
            head[2:] = _padded(short, _SMALL - 2)
        head = self._sum(head)
        length = int(head[0]) + (int(head[1]) << 31)
        received = bytearray(head[2:].tobytes())
        while len(received) < length:
            size = min(_LARGE, -(-(length - len(received)) // 4))
            piece = data[len(received) : len(received) + 4 * size]
            received += self._sum(_padded(piece, size)).tobytes()
        return bytes(received[:length])

    def _sum(self, values: Any) -> Any:
        """The sum of int32 values over all workers, on CPUs."""
        import tensorflow as tf

        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
        # Private: the strategy's own reduction would take a part from every GPU, and NCCL; this is
        # what it uses between hosts.
        host = self.strategy.extended._host_cross_device_ops
        tensor = tf.identity(values)
        return host.reduce(tf.distribute.ReduceOp.SUM, tensor, tensor, options=options).numpy()


def _padded(data: bytes, size: int) -> Any:
    """Bytes as `size` int32 values, with zeros at the end."""
    return np.frombuffer(data.ljust(4 * size, b"\0"), np.int32)
