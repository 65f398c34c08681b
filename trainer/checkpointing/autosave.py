"""When a run is checkpointed: at the end of epochs, after some minutes, and when it is stopped."""

from __future__ import annotations

import signal
import time

from trainer.checkpointing.checkpoints import Checkpoints
from trainer.checkpointing.progress import Progress
from trainer.checkpointing.termination import Termination
from trainer.data import BatchStream
from trainer.errors import TrainingStopped
from trainer.loop import NOTHING, Totals
from trainer.workers.team import Team


class Autosave:
    """Checkpoints of a run while it trains.

    Args:
        kept: Checkpoints that it writes.
        stream: What is trained on; its state goes into the checkpoint.
        minutes: Minutes from one checkpoint to the next within an epoch; 0 for none there.
        termination: Says whether the run has to stop.
        team: The workers of the run, who all save and stop at the same step.
    """

    def __init__(
        self,
        kept: Checkpoints,
        stream: BatchStream,
        minutes: float,
        termination: Termination,
        team: Team,
    ) -> None:
        self._kept = kept
        self._stream = stream
        self._seconds = minutes * 60 if minutes else float("inf")
        self._termination = termination
        self._team = team
        self._asked: signal.Signals | None = None
        self._saved_at = time.monotonic()
        self._saved: tuple[int, int] | None = None

    def begin(self) -> None:
        """Steps are done: a signal that comes from now on ends the run with a checkpoint."""
        if self._team.is_settled:
            self._termination.begin()

    def within_epoch(self, epochs_done: int, step: int, totals: Totals) -> None:
        """Saves if it is time, or if the run has to stop; not while steps are under way.

        Args:
            epochs_done: Whole epochs.
            step: Training steps of the epoch behind them that are done. In its validation all of
                them: nothing changes there, so that the place is saved once.
            totals: Sums over these steps.

        Raises:
            TrainingStopped: A signal has come, and the place is saved.
        """
        if not self._team.is_settled:
            return
        self._listen()
        is_time = bool(self._team.of_chief(int(self._is_time())))
        if (is_time or self._asked) and self._saved != (epochs_done, step):
            self._save(epochs_done, step, totals)
        self._stop_if_asked()

    def is_due(self) -> bool:
        """Whether the next call of `within_epoch` will save or stop: steps under way may end."""
        return bool(self._termination.asked) or self._is_time()

    def end_of_epoch(self, epochs_done: int) -> None:
        """Saves that so many epochs are done."""
        self._save(epochs_done, 0, NOTHING)

    def finish(self) -> None:
        """Waits until the last checkpoint is written."""
        self._team.from_chief(self._kept.wait)

    def stop_if_asked(self) -> None:
        """Raises if the run has to stop; to be called when its place is saved.

        Raises:
            TrainingStopped: A signal has come.
        """
        self._listen()
        self._stop_if_asked()

    def _listen(self) -> None:
        """Notes a signal that has come to any worker."""
        number = self._team.greatest(self._termination.asked or 0)
        self._asked = signal.Signals(number) if number else None

    def _is_time(self) -> bool:
        """Whether a checkpoint is due by the clock, or one has failed, which `save` reports.

        Not while one is at work: where it takes longer than the minutes, steps do not wait for it.
        """
        is_late = time.monotonic() - self._saved_at >= self._seconds
        return self._kept.has_failed or (is_late and not self._kept.is_writing)

    def _stop_if_asked(self) -> None:
        if self._asked and self._saved is not None:
            self.finish()
            raise TrainingStopped(self._asked, *self._saved, self._stream.steps_per_epoch)

    def _save(self, epochs_done: int, step: int, totals: Totals) -> None:
        stream = self._stream
        steps = epochs_done * stream.steps_per_epoch + step
        state = stream.state(global_step=steps)
        progress = Progress(epochs_done, step, totals, state)
        self._team.from_chief(lambda: self._kept.save(progress))
        self._saved = (epochs_done, step)
        self._saved_at = time.monotonic()
