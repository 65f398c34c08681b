"""The epochs of a run: each trains, validates, is shown, and is checkpointed."""

from __future__ import annotations

import dataclasses
import functools
import math
import signal
from collections.abc import Callable
from typing import Any

from trainer.checkpointing import checkpoints, run_dir
from trainer.checkpointing.autosave import Autosave
from trainer.checkpointing.best import best_epoch, is_over
from trainer.checkpointing.progress import Progress
from trainer.checkpointing.termination import Termination
from trainer.data import BatchStream, Data
from trainer.errors import TrainingError
from trainer.events import (
    EpochDone,
    OnEvent,
    RunStarted,
    StepsDone,
    StopAsked,
)
from trainer.loop import NOTHING, OnSteps, Totals
from trainer.monitoring.records import make_confusion
from trainer.monitoring.shown import Shown, showing
from trainer.optimization.pruning import sparsity_of
from trainer.options import Settings
from trainer.train_state import TrainState
from trainer.workers.team import Team

# Below this a loss scale no longer lifts gradients out of float16's subnormals; getting here means
# that no step is finite at any scale.
MIN_LOSS_SCALE = 2.0**-10


@dataclasses.dataclass(frozen=True)
class Epochs:
    """The epochs of a run, and what each of them needs.

    Attributes:
        options: Options of the run.
        data: Data of the run.
        learner: The model and its optimizer.
        stream: Stream of training batches, open at the first one to be trained on.
        on_event: Function called with every event.
        team: The processes of the run.
    """

    options: Settings
    data: Data
    learner: TrainState
    stream: BatchStream
    on_event: OnEvent
    team: Team

    def started(self, policy: str, place: Progress) -> RunStarted:
        """What is known before the first epoch of a run that begins, or resumes, at `place`."""
        validation = self.data.validation
        return RunStarted(
            model=self.options.model,
            num_parameters=self.learner.model.count_params(),
            precision=policy,
            strategy=self.options.strategy,
            num_replicas=self.learner.strategy.num_replicas_in_sync,
            first_epoch=place.epochs_done + 1,
            first_step=place.step,
            epochs=self.options.epochs,
            steps_per_epoch=self.stream.steps_per_epoch,
            num_train_records=self.stream.info.records,
            num_validation_records=validation.info.records if validation else 0,
            validation_split=self.data.validation_split,
            num_classes=self.data.num_outputs,
            head_only=self.options.freeze,
            head_loaded=self.learner.head_loaded,
            worker=self.team.index,
            num_workers=self.team.num_workers,
            collectives=self.team.collectives,
            num_parameter_servers=self.team.num_parameter_servers,
            batch_norm=self.learner.batch_norm,
        )

    def finish(
        self,
        history: list[EpochDone],
        kept: checkpoints.Checkpoints,
        place: Progress,
    ) -> None:
        """Runs what `history` lacks from `place` on, and appends the epochs.

        history.json, TensorBoard and the best model come before the checkpoint: a kill in between
        repeats steps of one epoch; in the other order they would be missing for good.

        Raises:
            TrainingError: The loss is no longer finite.
            TrainingStopped: SIGTERM or Ctrl-C has come.
        """
        size = self.options.batch_size
        batches = iter(self.team.distribute(self.stream, size))
        validation = self.data.validation and self.team.distribute(self.data.validation, size)
        minutes = self.options.checkpoint_minutes

        def asked(number: signal.Signals) -> None:
            self.on_event(StopAsked(number))

        taken = make_confusion(self.data, self.learner)
        shows = showing(
            self.options,
            self.data,
            self.learner,
            self.stream.steps_per_epoch,
            self.on_event,
            self.team,
        )
        with Termination(asked) as termination, shows as shown, kept:
            autosave = Autosave(kept, self.stream, minutes, termination, self.team)
            self.learner.loop.is_due = autosave.is_due
            for epoch in range(place.epochs_done + 1, self.options.epochs + 1):
                done = self._run_epoch(place, batches, validation, autosave, shown)
                history.append(done)
                matrix = taken()
                if shown.records is not None:
                    shown.records.epoch(history, matrix)
                if best_epoch(history, self.options.monitor) is done:
                    self.team.from_chief(self._save_best)
                autosave.end_of_epoch(epoch)
                if shown.records is not None:
                    shown.records.draw(history, matrix, is_over(history, self.options))
                self.on_event(done)
                autosave.stop_if_asked()
                if is_over(history, self.options):
                    break
                place = Progress(epochs_done=epoch)
            autosave.finish()

    def _save_best(self) -> None:
        self.learner.save(self.options.run_dir / run_dir.BEST)

    def _run_epoch(
        self, place: Progress, batches: Any, validation: Any, autosave: Autosave, shown: Shown
    ) -> EpochDone:
        """The rest of the epoch that `place` is in."""
        epochs_done, steps = place.epochs_done, self.stream.steps_per_epoch
        save = functools.partial(autosave.within_epoch, epochs_done)
        report = self._report(epochs_done + 1, "train", steps, autosave.begin, save, shown)
        first = epochs_done * steps
        self.learner.loop.next_stop = lambda done: shown.profile.next_stop(first + done) - first
        shown.profile.at(first + place.step)
        totals = self.learner.loop.train(batches, steps, report, place.step, place.totals)
        _require_loss_scale(self.learner.loop.loss_scale, epochs_done + 1)
        measured: Totals | None = None
        if self.data.validation is not None:
            count = self.data.validation.steps_per_epoch
            saves = (autosave.begin, lambda *_: save(steps, totals))
            report = self._report(epochs_done + 1, "validation", count, *saves, shown)
            # The chief's moving means, which are saved; see `Loop.validate`.
            self.team.take_from_chief(self.learner.model.non_trainable_variables)
            measured = self.learner.loop.validate(iter(validation), count, report)
        return self._summary(epochs_done + 1, totals, measured)

    def _summary(self, epoch: int, totals: Totals, measured: Totals | None) -> EpochDone:
        predicts_tokens = self.data.kind == "packed"
        records = self.stream.steps_per_epoch * self.options.batch_size
        validated = measured or NOTHING
        return EpochDone(
            epoch=epoch,
            loss=totals.mean_loss,
            accuracy=None if predicts_tokens else totals.accuracy,
            val_loss=measured.mean_loss if measured else None,
            val_accuracy=measured.accuracy if measured and not predicts_tokens else None,
            learning_rate=self.learner.last_learning_rate,
            examples_per_second=records / totals.seconds,
            loss_scale=self.learner.loop.loss_scale,
            perplexity=_perplexity(totals) if predicts_tokens else None,
            token_accuracy=totals.accuracy if predicts_tokens else None,
            val_perplexity=_perplexity(measured) if measured and predicts_tokens else None,
            val_token_accuracy=measured.accuracy if measured and predicts_tokens else None,
            tokens_per_second=totals.examples / totals.seconds if predicts_tokens else None,
            f1=totals.f1 if self.data.multi_label else None,
            val_f1=measured.f1 if measured and self.data.multi_label else None,
            input_wait=None if self.options.deterministic else totals.input_wait,
            sparsity=self.options.prune and sparsity_of(self.learner.model),
            wall_seconds=totals.seconds + validated.seconds,
            cpu_seconds=totals.cpu_seconds + validated.cpu_seconds,
            # Streams of others than `reader` may not count them.
            skipped=sum(getattr(one, "skipped", 0) for one in (self.stream, self.data.validation)),
        )

    def _report(
        self,
        epoch: int,
        phase: str,
        num_steps: int,
        begin: Callable[[], None],
        save: OnSteps,
        shown: Shown,
    ) -> OnSteps:
        """What turns the totals of a phase into events, and stops at a loss that is not finite.

        Checkpoints come last: none is written of a loss that is not finite.
        """

        def report(step: int, totals: Totals) -> None:
            begin()
            if totals.bad_step >= 0:
                raise TrainingError(
                    f"The loss is {totals.loss} at step {totals.bad_step + 1} of {num_steps} in "
                    f"the {phase} of epoch {epoch}. Lower --learning-rate or use --precision "
                    "float32, and pass another --run-dir."
                )
            self.on_event(
                StepsDone(epoch, phase, step, num_steps, totals.mean_loss, totals.accuracy)
            )
            first = (epoch - 1) * self.stream.steps_per_epoch
            shown.steps(epoch, phase, step, first, totals, self.learner.loop.loss_scale)
            save(step, totals)

        return report


def _perplexity(totals: Totals) -> float:
    """Perplexity of the tokens of a phase; at most e**700, the last power that a float64 holds."""
    return math.exp(min(totals.mean_loss, 700.0))


def _require_loss_scale(loss_scale: float | None, epoch: int) -> None:
    if loss_scale is not None and loss_scale < MIN_LOSS_SCALE:
        raise TrainingError(
            f"The loss scale is {loss_scale} after epoch {epoch}, below {MIN_LOSS_SCALE}: the "
            "gradients overflow float16 at every scale. Use --precision float32 or mixed_bfloat16, "
            "and pass another --run-dir."
        )
