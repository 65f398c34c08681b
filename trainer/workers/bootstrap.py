"""Makes a team of the processes that a scheduler has started, in any order and minutes apart."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from trainer.errors import WORKERS_LOST, WorkersLost
from trainer.events import Notice, OnEvent
from trainer.options import TrainOptions
from trainer.strategies import SEVERAL_WORKERS, STRATEGIES, multi_worker
from trainer.workers.cluster import Cluster, cluster_of_environment
from trainer.workers.connectivity import wait_for_all
from trainer.workers.team import Team
from trainer.workers.watch import Watch

# From all processes running to a cluster: TensorFlow takes a second or two.
_FORMING_SECONDS = 120.0


@contextlib.contextmanager
def joined(options: TrainOptions, on_event: OnEvent) -> Iterator[Team]:
    """The team of this process; within the context the loss of a worker is noticed.

    It comes before all other use of TensorFlow, whose collectives are configured once.

    Raises:
        UsageError: TF_CONFIG does not describe a cluster, or the port of this worker is taken.
        WorkersLost: A worker did not start, died, or hangs.
    """
    if options.strategy == "parameter_server":
        from trainer.parameter_servers import bootstrap

        with bootstrap.joined(options, on_event) as team:
            yield team
        return
    if options.strategy not in SEVERAL_WORKERS:
        yield Team(STRATEGIES[options.strategy]())
        return
    cluster = cluster_of_environment()
    wait_for_all(cluster, options.worker_start_timeout, on_event)

    def on_lost(message: str) -> None:
        on_event(Notice(f"{message}; this worker ends"))

    with _ends_unless_formed(on_lost):
        _configure_heartbeats(cluster, options.worker_timeout)
        strategy = STRATEGIES[options.strategy]()
    _take_back_sigterm()
    watch = Watch(cluster, options.worker_timeout, on_lost)
    watch.start()
    try:
        yield Team(strategy, cluster, multi_worker.collectives())
    except Exception as error:  # also one that wraps the error of a collective, as of a builder
        lost = watch.explained(_op_error(error))
        if lost is None:
            raise
        raise lost from error
    finally:
        watch.stop()


def _op_error(error: BaseException | None) -> BaseException | None:
    """The first error of TensorFlow among an error and what it was raised from."""
    while error is not None and not isinstance(error, tf.errors.OpError):
        error = error.__cause__
    return error


@contextlib.contextmanager
def _ends_unless_formed(on_lost: Callable[[str], None]) -> Iterator[None]:
    """Ends the process if TensorFlow waits for a worker that died after it was seen."""

    def end() -> None:
        on_lost(f"A worker was lost: no cluster was formed in {_FORMING_SECONDS:.0f} s")
        os._exit(WORKERS_LOST)

    timer = threading.Timer(_FORMING_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except tf.errors.OpError as error:
        raise WorkersLost(
            f"A worker was lost while the cluster formed ({_first(error)})"
        ) from error
    finally:
        timer.cancel()


def _take_back_sigterm() -> None:
    """Installs the handler of Python again: TensorFlow's coordination service ignores SIGTERM."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _first(error: Any) -> str:
    return str(error.message).partition("\n")[0]


def _configure_heartbeats(cluster: Cluster, limit: float) -> None:
    """Sets TensorFlow's own heartbeats, 10 s by default, behind those of `watch`, which say who."""
    # There is no public way to set them; see tests/trainer/test_private_names.py.
    from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
    from tensorflow.python.eager import context

    jobs = [
        coordination_config_pb2.CoordinatedJob(name=name, num_tasks=len(addresses))
        for name, addresses in cluster.jobs.items()
    ]
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=cluster.device_of(0),
        heartbeat_timeout_in_ms=round(3000 * limit),
        coordinated_jobs=jobs,
    )
