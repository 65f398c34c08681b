"""The chief of a run with parameter servers: waits for all, connects, ends them at the end."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from typing_extensions import override

from foundation.errors import UsageError
from foundation.storage import local_path
from trainer.errors import WorkersLost
from trainer.events import OnEvent
from trainer.options import TrainOptions
from trainer.parameter_servers.roll_call import RollCall
from trainer.parameter_servers.serving import END, serve
from trainer.strategies import parameter_server
from trainer.workers.cluster import Cluster, cluster_of_environment
from trainer.workers.connectivity import wait_for_all
from trainer.workers.team import Team

_SERVER = re.compile(r"/job:ps/replica:0/task:(\d+)")
_END_SECONDS = 10.0  # for a process that does not answer when it is asked to end


class Numbers:
    """Batches of a stream that have only numbers here: whoever computes a step makes them.

    Args:
        stream: A `reader.Stream`.

    Attributes:
        stream: Stream, as given.
        place: Number of the next batch, counted over all epochs.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.place = stream.first_step

    def __iter__(self) -> Numbers:
        return Numbers(self.stream)

    def __next__(self) -> int:
        self.place += 1
        return self.place - 1


class Servers(Team):
    """The chief's view of workers and parameter servers; it makes all decisions.

    Args:
        remote: The ParameterServerStrategy; the team's own strategy is that of this process.
        cluster: Cluster with this process as the chief.
        roll_call: Who is there.

    Attributes:
        coordinator: The ClusterCoordinator.
    """

    def __init__(self, remote: Any, cluster: Cluster, roll_call: RollCall) -> None:
        super().__init__(tf.distribute.get_strategy())
        self.remote = remote
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(remote)
        self.roll_call = roll_call
        self.is_under_way = False
        self._servers = cluster

    @override
    @property
    def num_workers(self) -> int:
        return len(self._servers.of_job("worker"))

    @override
    @property
    def num_parameter_servers(self) -> int:
        return len(self._servers.of_job("ps"))

    @override
    @property
    def is_settled(self) -> bool:
        return not self.is_under_way

    @override
    def distribute(self, stream: Any, batch_size: int) -> Any:
        # Workers make the batches, of which the loop gives them the numbers.
        return Numbers(stream)


@contextlib.contextmanager
def joined(options: TrainOptions, on_event: OnEvent) -> Iterator[Team]:
    """The team of the chief; a worker or a parameter server serves, and ends with SystemExit.

    Raises:
        UsageError: An option does not work with parameter servers, or TF_CONFIG describes none.
        WorkersLost: A process did not start, or a parameter server or all workers were lost.
        SystemExit: This process served, and the run is over.
    """
    _require_supported(options)
    cluster = cluster_of_environment("parameter_server")
    if cluster.tasks[cluster.index][0] != "chief":
        serve(cluster, options.worker_start_timeout, on_event)
        raise SystemExit(0)
    tf.config.set_visible_devices([], "GPU")
    wait_for_all(cluster, options.worker_start_timeout, on_event)
    roll_call = RollCall(cluster, options.worker_start_timeout, on_event)
    try:
        team = Servers(parameter_server.create(), cluster, roll_call)
        roll_call.start()
        yield team
        roll_call.stop()
        _end_all(cluster, roll_call)
    except Exception as error:  # the coordinator wraps those of a step in classes of its own
        lost = _lost_server(cluster, error)
        if lost is None:
            raise
        raise lost from error
    finally:
        roll_call.stop()


def _lost_server(cluster: Cluster, error: Exception) -> WorkersLost | None:
    """The loss of a process that an error comes from; None for a failure of its own."""
    cause = getattr(error, "original_exception", error)
    if not isinstance(cause, tf.errors.OpError):
        return None
    gone = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
    if not isinstance(cause, gone) and "/job:" not in str(cause):
        return None
    if isinstance(cause, tf.errors.InvalidArgumentError | tf.errors.DataLossError):
        return None
    server = _SERVER.search(str(cause))
    if server is None:
        return WorkersLost("A connection between the processes of this run was lost")
    name = cluster.name_of(cluster.of_job("ps")[int(server[1])])
    return WorkersLost(f"P{name[1:]} ended or was started again")


def _end_all(cluster: Cluster, roll_call: RollCall) -> None:
    """Ends the processes that are there; one that is not waits for a chief, and ends then."""

    def end(index: int) -> None:
        with contextlib.suppress(tf.errors.OpError), tf.device(cluster.device_of(index)):
            tf.raw_ops.PyFunc(input=[], token=END, Tout=[tf.int64])

    present = set(cluster.others) - roll_call.missing
    # Parameter servers last: a worker may still be connected to them.
    for job in ("worker", "ps"):
        threads = [
            threading.Thread(target=end, args=(index,), daemon=True)
            for index in cluster.of_job(job)
            if index in present
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_END_SECONDS)


def _require_supported(options: TrainOptions) -> None:
    """Checks that the options mean something where steps have no order.

    Raises:
        UsageError: One does not.
    """
    refused = {
        "--ema": (
            options.ema is not None,
            "workers would overwrite each other's averages of the weights, and lose updates",
        ),
        "--deterministic": (
            options.deterministic,
            "the order of the steps depends on the speed of the workers",
        ),
        "--prune": (
            options.prune is not None,
            "the steps of other workers would overwrite the zeros",
        ),
        "--profile": (
            options.profile is not None,
            "no step begins or ends on all processes at once",
        ),
        "--head-epochs": (
            options.head_epochs is not None,
            "its processes serve one run. Run --freeze, then --weights",
        ),
        "--cache": (
            options.cache not in ("auto", "off"),
            "which worker reads a record differs from epoch to epoch",
        ),
    }
    for flag, (is_given, reason) in refused.items():
        if is_given:
            raise UsageError(
                f"{flag} does not work with --strategy parameter_server: {reason}. Leave it out, "
                "or pass --strategy multi_worker."
            )
    if local_path(options.data) is None:
        raise UsageError(
            f"--strategy parameter_server reads sets in directories only, not {options.data}, "
            "since TensorFlow's servers have no client of object stores. Mount it, copy it to a "
            "path that the chief and all workers share, or pass --strategy multi_worker."
        )
