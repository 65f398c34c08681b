"""Notices workers that died or hang, so that no other one waits for them for ever.

Every worker asks every other one for a sign of life through the ports that TensorFlow has open
anyway. TensorFlow's own heartbeats go to the chief alone: when another worker is killed, those
that do not talk to it in the ring wait on, and nobody learns who it was.

    a worker is lost   it refused two questions in a row, runs anew, or was silent for the limit
    what follows       collectives are aborted, which frees the main thread; it asks `explained`,
                       which waits until the others have noticed too, so that all name the same one
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from trainer.errors import WORKERS_LOST, WorkersLost
from trainer.workers.cluster import Cluster

# Questions within the limit: a single lost packet must not look like a lost worker.
_QUESTIONS = 6
_REFUSALS = 2
# How long a main thread that is in no collective (the chief may be writing) may take to come to
# one, in seconds, before the process ends without it.
_FREED_SECONDS = 60.0


class Watch:
    """A thread that asks the other workers.

    Args:
        cluster: The workers.
        limit: Seconds of silence after which a worker is lost.
        on_lost: Called in this thread, once, with what is known.
    """

    def __init__(self, cluster: Cluster, limit: float, on_lost: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._limit = limit
        self._interval = limit / _QUESTIONS
        self._on_lost = on_lost
        self._over = threading.Event()
        self._found = threading.Event()
        self._message = ""
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begins to ask; the strategy exists."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it: the run is over, or the loss was reported."""
        self._over.set()

    def explained(self, error: Any) -> WorkersLost | None:
        """The loss that an error of a collective comes from; None if all workers are alive.

        Takes up to the limit, and after the loss a third of it, in which this worker still answers
        the others.
        """
        import tensorflow as tf

        # Not what a worker's own data or kernels raise, such as DataLossError.
        collective = (
            tf.errors.UnavailableError,
            tf.errors.AbortedError,
            tf.errors.CancelledError,
            tf.errors.DeadlineExceededError,
            tf.errors.FailedPreconditionError,
            tf.errors.InternalError,
        )
        if not isinstance(error, collective):
            return None
        if not self._found.wait(self._limit + 2 * self._interval):
            return None
        self._over.set()
        time.sleep(2 * self._interval)
        return WorkersLost(self._message)

    def _watch(self) -> None:
        heard = dict.fromkeys(self._cluster.others, time.monotonic())
        refused = dict.fromkeys(self._cluster.others, 0)
        while not self._over.wait(self._interval):
            lost = {}
            for index in self._cluster.others:
                answer = self._asked(index)
                if answer == "alive":
                    heard[index], refused[index] = time.monotonic(), 0
                elif answer != "silent":
                    refused[index] += 1
                silence = time.monotonic() - heard[index]
                if answer == "restarted" or refused[index] >= _REFUSALS:
                    lost[index] = "ended" if answer != "restarted" else "was started again"
                elif silence >= self._limit:
                    lost[index] = f"has not answered for {silence:.0f} s"
            if lost and not self._over.is_set():
                self._report(lost)
                return

    def _asked(self, index: int) -> str:
        """What a worker answers: alive, refused, silent or restarted."""
        import tensorflow as tf
        from tensorflow.python.eager import context  # no public name; see test_private_names.py

        device = self._cluster.device_of(index)
        try:
            context.context().check_collective_ops_peer_health(
                device, timeout_in_ms=max(1, round(500 * self._interval))
            )
        except tf.errors.DeadlineExceededError:
            return "silent"
        except tf.errors.FailedPreconditionError:
            return "restarted"
        except tf.errors.OpError:
            return "refused"
        return "alive"

    def _report(self, lost: dict[int, str]) -> None:
        names = [f"{self._cluster.name_of(index)} {what}" for index, what in lost.items()]
        self._message = " and ".join(names).capitalize()
        self._on_lost(self._message)
        self._found.set()
        _abort_collectives(self._message)
        if not self._over.wait(max(_FREED_SECONDS, self._limit)):
            os._exit(WORKERS_LOST)


def _abort_collectives(message: str) -> None:
    """Has the collectives of this process fail, which may wait for a worker that is lost."""
    import tensorflow as tf
    from tensorflow.python.eager import context  # no public name; see test_private_names.py

    context.context().abort_collective_ops(tf.errors.UNAVAILABLE, message)
