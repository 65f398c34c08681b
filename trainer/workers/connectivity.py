"""Who listens on the addresses of a cluster, before and without TensorFlow."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Iterator

from foundation.errors import UsageError
from trainer.errors import WorkersLost
from trainer.events import OnEvent, WorkersAwaited
from trainer.workers.cluster import Cluster

_LOOK_SECONDS = 0.5  # between two attempts to reach the other workers
_CONNECT_SECONDS = 2.0


def wait_for_all(cluster: Cluster, limit: float, on_event: OnEvent) -> None:
    """Waits until all other workers listen on their ports; meanwhile this one does.

    TensorFlow would wait too, but it would not say for whom.

    Raises:
        UsageError: The own port is taken.
        WorkersLost: The time is over.
    """
    missing, told = set(cluster.others), None
    end = time.monotonic() + limit
    with listening(cluster.addresses[cluster.index]):
        while missing:
            missing -= {index for index in missing if listens(cluster.addresses[index])}
            names = tuple(cluster.name_of(index) for index in sorted(missing))
            if missing and time.monotonic() >= end:
                raise WorkersLost(f"{', '.join(names).capitalize()} did not start in {limit:g} s")
            if names != told:
                on_event(WorkersAwaited(names))
                told = names
            if missing:
                time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def listening(address: str) -> Iterator[None]:
    """Within the context the port of an address of this process is open.

    Raises:
        UsageError: It is taken.
    """
    port = int(address.rpartition(":")[2])
    try:
        server = socket.create_server(("", port), backlog=128)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UsageError(
            f"Cannot listen on port {port} of {address}, which TF_CONFIG gives to this worker: "
            f"'{error.strerror}'. Stop what listens there, or change the port in TF_CONFIG of all "
            "workers."
        ) from error
    with server:
        yield


def listens(address: str) -> bool:
    """Whether a process has its port open."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
            return True
    except OSError:  # not there yet; in Kubernetes its name is not either
        return False
