"""Numbers of a run while it trains, for Prometheus."""

from __future__ import annotations

import time
from pathlib import Path

from foundation.errors import UsageError
from trainer.loop import NOTHING, Totals

_LATEST = "checkpoint"  # the file that TensorFlow replaces with every checkpoint


class Metrics:
    """Gauges of a run, served at http://HOST:PORT/metrics until they are closed.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 for any that is free.
        batch_size: Records of a training step.
        checkpoints: Directory of the checkpoints.

    Attributes:
        url: Address at which they are served.

    Raises:
        UsageError: The address cannot be listened on.
    """

    def __init__(self, host: str, port: int, batch_size: int, checkpoints: Path) -> None:
        from prometheus_client import CollectorRegistry, Gauge, start_http_server

        registry = CollectorRegistry()

        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"shardmill_{name}", text, labels, registry=registry)

        self._batch_size = batch_size
        self._registry = registry
        self._gauge = gauge
        self._loss = gauge("loss", "Mean loss of the phase of this epoch so far.", ("phase",))
        self._accuracy = gauge(
            "accuracy", "Share of examples predicted right in this phase so far.", ("phase",)
        )
        self._epoch = gauge("epoch", "Epoch at work, counted from 1.")
        self._step = gauge("step", "Training steps of the run that are done.")
        self._rate = gauge("examples_per_second", "Training examples per second, of late.")
        self._wait = gauge(
            "input_wait_ratio", "Share of the time of steps spent waiting for input, of late."
        )
        self._scale: Gauge | None = None
        age = gauge("checkpoint_age_seconds", "Age of the latest checkpoint; NaN without one.")
        age.set_function(lambda: _age(checkpoints / _LATEST))
        self._before = (0, 0, NOTHING)
        try:
            self._server, _ = start_http_server(port, host, registry)
        except OSError as error:
            raise UsageError(
                f"Cannot serve metrics at {host}:{port}: '{error.strerror}'. Pass another "
                "--metrics-port, 0 for any that is free, or another --metrics-host."
            ) from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}/metrics"

    def update(
        self, epoch: int, phase: str, step: int, first: int, totals: Totals, scale: float | None
    ) -> None:
        """Takes the totals of a phase after some steps.

        Args:
            epoch: Counted from 1.
            phase: "train" or "validation".
            step: Steps of the phase that are done.
            first: Training steps of the run before this epoch.
            totals: Sums over these steps.
            scale: The loss scale, if there is one.
        """
        self._epoch.set(epoch)
        self._loss.labels(phase).set(totals.mean_loss)
        self._accuracy.labels(phase).set(totals.accuracy)
        if scale is not None:
            if self._scale is None:
                self._scale = self._gauge("loss_scale", "Factor on the loss.")
            self._scale.set(scale)
        if phase != "train":
            return
        self._step.set(first + step)
        known, steps, before = self._before
        if known != epoch:
            steps, before = 0, NOTHING
        self._before = (epoch, step, totals)
        done = totals.since(before)
        # Not at the first call, of what a run was resumed with, or which traces the graph.
        if known and done.seconds > 0:
            self._rate.set((step - steps) * self._batch_size / done.seconds)
            self._wait.set(done.input_wait)

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("nan")
