"""A training run from start to end: data, model, epochs, checkpoints, the trained model."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

from trainer import checkpoints, precision, run_dir
from trainer.data import Data, Stream, open_data, require_batch
from trainer.errors import TrainingError
from trainer.events import EpochDone, OnEvent, RunDone, RunStarted, StepsDone, TrainResult, ignore
from trainer.learner import Learner, make_learner
from trainer.loop import OnSteps, Totals
from trainer.options import Settings, TrainOptions
from trainer.scalars import Scalars

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
    epochs_done = checkpoints.epochs_done(directory)
    stream = data.open_training(epochs_done)
    require_batch(stream.info.records, options)
    learner = make_learner(
        options, policy, stream.steps_per_epoch, data.num_outputs, data.input_shape
    )
    kept = checkpoints.Checkpoints(
        directory, learner.model, learner.optimizer, options.keep_checkpoints
    )
    kept.restore()
    claim.write()
    run = _Run(options, data.kind, learner, stream, data.validation, on_event)
    on_event(run.started(policy, epochs_done, data.num_outputs))
    history = run_dir.read_history(options.run_dir, epochs_done)
    if epochs_done < options.epochs:
        run.finish(history, kept)
    model_path = options.run_dir / run_dir.MODEL
    if epochs_done < options.epochs or not model_path.exists():
        checkpoints.save_model(learner.model, model_path)
    seconds = time.perf_counter() - started
    on_event(RunDone(model_path, seconds))
    return TrainResult(options.run_dir, model_path, tuple(history), seconds)


@dataclasses.dataclass(frozen=True)
class _Run:
    """What every epoch of a run needs."""

    options: Settings
    kind: str
    learner: Learner
    stream: Stream
    validation: Stream | None
    on_event: OnEvent

    def started(self, policy: str, epochs_done: int, num_classes: int) -> RunStarted:
        return RunStarted(
            model=self.options.model,
            num_parameters=self.learner.model.count_params(),
            precision=policy,
            strategy=self.options.strategy,
            num_replicas=self.learner.strategy.num_replicas_in_sync,
            first_epoch=epochs_done + 1,
            epochs=self.options.epochs,
            steps_per_epoch=self.stream.steps_per_epoch,
            num_train_records=self.stream.info.records,
            num_validation_records=self.validation.info.records if self.validation else 0,
            num_classes=num_classes,
        )

    def finish(self, history: list[EpochDone], kept: checkpoints.Checkpoints) -> None:
        """Runs the epochs that `history` lacks, and appends them.

        history.json and TensorBoard come before the checkpoint: a kill in between repeats one
        epoch; in the other order its numbers would be missing for good.
        """
        distribute = self.learner.loop.distribute
        batches = iter(distribute(self.stream.dataset))
        validation = self.validation and distribute(self.validation.dataset)
        with Scalars(self.options.run_dir / run_dir.TENSORBOARD) as scalars:
            for epoch in range(len(history) + 1, self.options.epochs + 1):
                done = self._run_epoch(epoch, batches, validation)
                history.append(done)
                run_dir.write_history(self.options.run_dir, history)
                scalars.write(done)
                kept.save(epoch)
                self.on_event(done)

    def _run_epoch(self, epoch: int, batches: Any, validation: Any) -> EpochDone:
        loop, num_steps = self.learner.loop, self.stream.steps_per_epoch
        begun = time.perf_counter()
        totals = loop.train(batches, num_steps, self._report(epoch, "train", num_steps))
        seconds = time.perf_counter() - begun
        _require_loss_scale(loop.loss_scale, epoch)
        measured: Totals | None = None
        if self.validation is not None:
            num_steps = self.validation.steps_per_epoch
            report = self._report(epoch, "validation", num_steps)
            measured = loop.validate(iter(validation), num_steps, report)
        predicts_tokens = self.kind == "packed"
        records = self.stream.steps_per_epoch * self.options.batch_size
        return EpochDone(
            epoch=epoch,
            loss=totals.mean_loss,
            accuracy=None if predicts_tokens else totals.accuracy,
            val_loss=measured.mean_loss if measured else None,
            val_accuracy=measured.accuracy if measured and not predicts_tokens else None,
            learning_rate=self.learner.last_learning_rate,
            examples_per_second=records / seconds,
            loss_scale=loop.loss_scale,
            perplexity=_perplexity(totals) if predicts_tokens else None,
            token_accuracy=totals.accuracy if predicts_tokens else None,
            val_perplexity=_perplexity(measured) if measured and predicts_tokens else None,
            val_token_accuracy=measured.accuracy if measured and predicts_tokens else None,
            tokens_per_second=totals.examples / seconds if predicts_tokens else None,
        )

    def _report(self, epoch: int, phase: str, num_steps: int) -> OnSteps:
        """What turns the totals of a phase into events, and stops at a loss that is not finite."""

        def report(step: int, totals: Totals) -> None:
            if totals.bad_step >= 0:
                raise TrainingError(
                    f"the loss must be finite, got {totals.loss} at step {totals.bad_step + 1} of "
                    f"{num_steps} in the {phase} of epoch {epoch}. Lower --learning-rate or use "
                    "--precision float32, and pass another --run-dir."
                )
            self.on_event(
                StepsDone(epoch, phase, step, num_steps, totals.mean_loss, totals.accuracy)
            )

        return report


def _perplexity(totals: Totals) -> float:
    """Of the tokens of a phase; at most e**700, the last power that a float64 holds."""
    return math.exp(min(totals.mean_loss, 700.0))


def _require_loss_scale(loss_scale: float | None, epoch: int) -> None:
    if loss_scale is not None and loss_scale < MIN_LOSS_SCALE:
        raise TrainingError(
            f"the loss scale must stay above {MIN_LOSS_SCALE}, got {loss_scale} after epoch "
            f"{epoch}: the gradients overflow float16 at every scale. Use --precision float32 or "
            "mixed_bfloat16, and pass another --run-dir."
        )
