"""Who is there of the workers and parameter servers of a run, by a look at their ports.

TensorFlow continues without a lost worker by itself, and says nothing. It takes a parameter server
for lost only after some errors, whose text does not give its address.
"""

from __future__ import annotations

import threading
import time

from trainer.errors import WorkersLost
from trainer.events import Notice, OnEvent
from trainer.workers.cluster import Cluster
from trainer.workers.connectivity import listens

_LOOK_SECONDS = 1.0
_REFUSALS = 2  # a connection that is lost once must not look like a lost process


class RollCall:
    """A thread that looks at the ports of the other processes.

    Args:
        cluster: The chief is this process.
        limit: Seconds without any worker that are too many.
        on_event: Function called in this thread when a process does not answer, or does so again.
    """

    def __init__(self, cluster: Cluster, limit: float, on_event: OnEvent) -> None:
        self._cluster = cluster
        self._limit = limit
        self._on_event = on_event
        self._refused = dict.fromkeys(cluster.others, 0)
        self._alone_since: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def start(self) -> None:
        """Begins to look; all were there."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        self._over.set()

    @property
    def missing(self) -> frozenset[int]:
        """The indexes of the processes that do not answer."""
        return frozenset(i for i, count in self._refused.items() if count >= _REFUSALS)

    def require(self) -> None:
        """Checks that the run can continue.

        Raises:
            WorkersLost: A parameter server is missing, or all workers have been for the limit.
        """
        missing, cluster = self.missing, self._cluster
        for index in cluster.of_job("ps"):
            if index in missing:
                raise WorkersLost(f"{_capital(cluster.name_of(index))} ended")
        since = self._alone_since
        if since is not None and time.monotonic() - since >= self._limit:
            raise WorkersLost(f"No worker was there for {self._limit:g} s")

    def _look(self) -> None:
        workers = set(self._cluster.of_job("worker"))
        while not self._over.wait(_LOOK_SECONDS):
            for index in self._refused:
                before = index in self.missing
                answers = listens(self._cluster.addresses[index])
                self._refused[index] = 0 if answers else self._refused[index] + 1
                after = index in self.missing
                if after != before and not self._over.is_set():
                    what = "does not answer" if after else "is back"
                    self._on_event(Notice(f"{self._cluster.name_of(index)} {what}"))
            if not workers <= self.missing:
                self._alone_since = None
            elif self._alone_since is None:
                self._alone_since = time.monotonic()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
