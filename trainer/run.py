"""A training run from start to end: data, model, epochs, checkpoints, the trained model."""

from __future__ import annotations

import dataclasses
import functools
import math
import signal
import time
from pathlib import Path
from typing import Any

from trainer import checkpoints, precision, run_dir
from trainer.autosave import Autosave
from trainer.best import best_epoch, is_over, require_validation
from trainer.data import BatchStream, Data, open_data, require_batch
from trainer.errors import TrainingError
from trainer.events import (
    EpochDone,
    OnEvent,
    RunDone,
    RunStarted,
    StepsDone,
    StopAsked,
    TrainResult,
    ignore,
)
from trainer.loop import OnSteps, Totals
from trainer.options import Settings, TrainOptions
from trainer.progress import Progress
from trainer.scalars import Scalars
from trainer.termination import Termination
from trainer.train_state import TrainState, make_train_state

# Below this a loss scale no longer lifts gradients out of float16's subnormals; getting here means
# that no step is finite at any scale.
MIN_LOSS_SCALE = 2.0**-10


def train(options: TrainOptions, on_event: OnEvent = ignore) -> TrainResult:
    """See `trainer.train`."""
    return train_on(open_data(options), options, on_event)


def train_on(data: Data, asked: TrainOptions, on_event: OnEvent = ignore) -> TrainResult:
    """Like `train`, on any data."""
    started = time.perf_counter()
    options = asked.settled(data.kind)
    policy = precision.resolve(options.precision)
    claim = run_dir.Claim(options, policy, data.root_hash, data.class_names, data.normalization)
    claim.check()
    directory = options.run_dir / run_dir.CHECKPOINTS
    place = checkpoints.latest_progress(directory)
    stream = _open_at(data, place)
    require_batch(stream.info.records, options)
    require_validation(options, has_validation=data.validation is not None)
    learner = make_train_state(
        options,
        policy,
        stream.steps_per_epoch,
        data.num_outputs,
        data.input_shape,
        data.multi_label,
        data.class_weights,
        from_start=place == Progress(),
    )
    kept = checkpoints.Checkpoints(
        directory, learner.model, learner.optimizer, options.keep_checkpoints
    )
    kept.restore()
    claim.write()
    run = _Run(options, data.kind, data.multi_label, learner, stream, data.validation, on_event)
    on_event(run.started(policy, place, data.num_outputs))
    history = run_dir.read_history(options.run_dir, place.epochs_done)
    was_over = is_over(history, options)
    if not was_over:
        run.finish(history, kept, place)
    model_path = options.run_dir / run_dir.MODEL
    if not (was_over and model_path.exists()):
        learner.save(model_path)
    best = best_epoch(history, options.monitor)
    best_path = options.run_dir / run_dir.BEST if best else None
    claim.write_results(history, best)
    seconds = time.perf_counter() - started
    on_event(RunDone(model_path, seconds))
    return TrainResult(options.run_dir, model_path, tuple(history), seconds, best, best_path)


def _open_at(data: Data, place: Progress) -> BatchStream:
    if place.reader is not None or not place.epochs_done:
        return data.open_training(place.reader)
    # A checkpoint of version 0.1.0, at the end of an epoch: the rest is read as by a run that began
    # with this version.
    stream = data.open_training(None)
    return data.open_training(stream.state(place.epochs_done * stream.steps_per_epoch))


@dataclasses.dataclass(frozen=True)
class _Run:
    """What every epoch of a run needs."""

    options: Settings
    kind: str
    multi_label: bool
    learner: TrainState
    stream: BatchStream
    validation: BatchStream | None
    on_event: OnEvent

    def started(self, policy: str, place: Progress, num_classes: int) -> RunStarted:
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
            num_validation_records=self.validation.info.records if self.validation else 0,
            num_classes=num_classes,
        )

    def finish(
        self, history: list[EpochDone], kept: checkpoints.Checkpoints, place: Progress
    ) -> None:
        """Runs what `history` lacks from `place` on, and appends the epochs.

        history.json, TensorBoard and the best model come before the checkpoint: a kill in between
        repeats steps of one epoch; in the other order they would be missing for good.

        Raises:
            TrainingError: The loss is no longer finite.
            TrainingStopped: SIGTERM or Ctrl-C has come.
        """
        distribute = self.learner.loop.distribute
        batches = iter(distribute(self.stream.dataset))
        validation = self.validation and distribute(self.validation.dataset)
        minutes = self.options.checkpoint_minutes

        def asked(number: signal.Signals) -> None:
            self.on_event(StopAsked(number))

        with Termination(asked) as termination, Scalars(self._tensorboard) as scalars:
            autosave = Autosave(kept, self.stream, minutes, termination)
            for epoch in range(place.epochs_done + 1, self.options.epochs + 1):
                done = self._run_epoch(place, batches, validation, autosave)
                history.append(done)
                run_dir.write_history(self.options.run_dir, history)
                scalars.write(done)
                if best_epoch(history, self.options.monitor) is done:
                    self.learner.save(self.options.run_dir / run_dir.BEST)
                autosave.end_of_epoch(epoch)
                self.on_event(done)
                autosave.stop_if_asked()
                if is_over(history, self.options):
                    break
                place = Progress(epochs_done=epoch)

    @property
    def _tensorboard(self) -> Path:
        return self.options.run_dir / run_dir.TENSORBOARD

    def _run_epoch(
        self, place: Progress, batches: Any, validation: Any, autosave: Autosave
    ) -> EpochDone:
        """The rest of the epoch that `place` is in."""
        epochs_done, steps = place.epochs_done, self.stream.steps_per_epoch
        save = functools.partial(autosave.within_epoch, epochs_done)
        report = self._report(epochs_done + 1, "train", steps, save)
        totals = self.learner.loop.train(batches, steps, report, place.step, place.totals)
        _require_loss_scale(self.learner.loop.loss_scale, epochs_done + 1)
        measured: Totals | None = None
        if self.validation is not None:
            count = self.validation.steps_per_epoch
            report = self._report(
                epochs_done + 1, "validation", count, lambda *_: save(steps, totals)
            )
            measured = self.learner.loop.validate(iter(validation), count, report)
        return self._summary(epochs_done + 1, totals, measured)

    def _summary(self, epoch: int, totals: Totals, measured: Totals | None) -> EpochDone:
        predicts_tokens = self.kind == "packed"
        records = self.stream.steps_per_epoch * self.options.batch_size
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
            f1=totals.f1 if self.multi_label else None,
            val_f1=measured.f1 if measured and self.multi_label else None,
        )

    def _report(self, epoch: int, phase: str, num_steps: int, save: OnSteps) -> OnSteps:
        """What turns the totals of a phase into events, and stops at a loss that is not finite.

        Checkpoints come last: none is written of a loss that is not finite.
        """

        def report(step: int, totals: Totals) -> None:
            if totals.bad_step >= 0:
                raise TrainingError(
                    f"The loss is {totals.loss} at step {totals.bad_step + 1} of {num_steps} in "
                    f"the {phase} of epoch {epoch}. Lower --learning-rate or use --precision "
                    "float32, and pass another --run-dir."
                )
            self.on_event(
                StepsDone(epoch, phase, step, num_steps, totals.mean_loss, totals.accuracy)
            )
            save(step, totals)

        return report


def _perplexity(totals: Totals) -> float:
    """Of the tokens of a phase; at most e**700, the last power that a float64 holds."""
    return math.exp(min(totals.mean_loss, 700.0))


def _require_loss_scale(loss_scale: float | None, epoch: int) -> None:
    if loss_scale is not None and loss_scale < MIN_LOSS_SCALE:
        raise TrainingError(
            f"The loss scale is {loss_scale} after epoch {epoch}, below {MIN_LOSS_SCALE}: the "
            "gradients overflow float16 at every scale. Use --precision float32 or mixed_bfloat16, "
            "and pass another --run-dir."
        )
