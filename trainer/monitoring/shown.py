"""Everything that shows a run while it trains: files, a trace, metrics for Prometheus."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from trainer.checkpointing import run_dir
from trainer.data import Data
from trainer.events import MetricsServed, OnEvent
from trainer.loop import Totals
from trainer.monitoring.metrics import Metrics
from trainer.monitoring.profiling import Profile
from trainer.monitoring.records import Records
from trainer.options import Settings
from trainer.train_state import TrainState
from trainer.workers.team import Team


@dataclasses.dataclass(frozen=True)
class Shown:
    """What takes the totals of steps.

    Attributes:
        profile: The trace of --profile.
        records: Files; None on workers that write none.
        metrics: Metrics for Prometheus, if asked for.
    """

    profile: Profile
    records: Records | None
    metrics: Metrics | None

    def steps(
        self, epoch: int, phase: str, step: int, first: int, totals: Totals, scale: float | None
    ) -> None:
        """Takes the totals of a phase, see `Metrics.update`."""
        if phase == "train":
            self.profile.at(first + step)
            if self.records is not None:
                self.records.steps(epoch, step, first, totals)
        if self.metrics is not None:
            self.metrics.update(epoch, phase, step, first, totals, scale)


@contextlib.contextmanager
def showing(
    options: Settings,
    data: Data,
    learner: TrainState,
    steps_per_epoch: int,
    on_event: OnEvent,
    team: Team,
) -> Iterator[Shown]:
    """Shows a run while the context is open; the chief writes files."""
    directory = options.run_dir / run_dir.TENSORBOARD if team.is_chief else None
    with contextlib.ExitStack() as stack:
        profile = Profile(options.profile, options.epochs * steps_per_epoch, directory)
        stack.callback(profile.close)
        records, metrics = None, None
        if team.is_chief:
            records = Records(options, data, learner)
            stack.callback(records.close)
        if options.metrics_port is not None:
            # Workers of one machine listen on ports one after the other.
            port = options.metrics_port + (options.metrics_port and team.index_on_host)
            folder = options.run_dir / run_dir.CHECKPOINTS
            metrics = Metrics(options.metrics_host, port, options.batch_size, folder)
            stack.callback(metrics.close)
            on_event(MetricsServed(metrics.url))
        yield Shown(profile, records, metrics)
