"""A training run from start to end: data, model, epochs, checkpoints, the trained model."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shard_format.errors import InputError
from trainer import checkpoint_files, checkpoints, precision, run_dir
from trainer.autosave import Autosave
from trainer.best import best_epoch, is_over, require_validation
from trainer.data import BatchStream, Data, open_data, require_batch
from trainer.devices import configure_devices
from trainer.errors import TrainingError
from trainer.events import (
    CheckpointDamaged,
    EpochDone,
    MetricsServed,
    NotLocked,
    OnEvent,
    RunDone,
    RunStarted,
    StepsDone,
    StopAsked,
    TrainResult,
    ignore,
)
from trainer.fine_tuning import head_run, weights_of
from trainer.loop import OnSteps, Totals
from trainer.metrics import Metrics
from trainer.options import Settings, TrainOptions
from trainer.profiling import Profile
from trainer.progress import Progress
from trainer.pruning import sparsity_of
from trainer.records import Records, make_confusion
from trainer.run_lock import RunLock
from trainer.strategies import STRATEGIES
from trainer.termination import Termination
from trainer.train_state import TrainState, make_train_state
from trainer.workers.joining import joined
from trainer.workers.team import Team

# Below this a loss scale no longer lifts gradients out of float16's subnormals; getting here means
# that no step is finite at any scale.
MIN_LOSS_SCALE = 2.0**-10


def train(options: TrainOptions, on_event: OnEvent = ignore) -> TrainResult:
    """See `trainer.train`."""
    configure_devices(options)
    with joined(options, on_event) as team:
        data = open_data(options, (team.index, team.size))
        start = None
        if options.head_epochs is not None:
            start = weights_of(train_on(data, head_run(options), on_event, team))
        return train_on(data, options, on_event, team, start)


def train_on(
    data: Data,
    asked: TrainOptions,
    on_event: OnEvent = ignore,
    team: Team | None = None,
    start: Path | None = None,
) -> TrainResult:
    """One phase of `train`, on any data, which is this worker's part if the team has several.

    It begins with the weights in the file `start`, or in that of the options.
    """
    team = team or Team(STRATEGIES[asked.strategy]())
    options = asked.settled(data.kind)
    with _locked(team, options, on_event):
        return _train_in(data, options, on_event, team, start)


@contextlib.contextmanager
def _locked(team: Team, options: Settings, on_event: OnEvent) -> Iterator[None]:
    """The chief, which alone writes there, keeps other runs out of the run directory."""
    directory = options.run_dir
    lock = RunLock(directory)

    def acquire() -> None:
        run_dir.require_free(directory)
        lock.acquire(lambda reason: on_event(NotLocked(directory, reason)))

    try:
        team.from_chief(acquire)
        yield
    finally:
        lock.release()


def _train_in(
    data: Data, options: Settings, on_event: OnEvent, team: Team, start: Path | None
) -> TrainResult:
    """Like `train_on`, with the run directory locked."""
    started = time.perf_counter()
    begun = _begun(team, options, data, on_event)
    claim = begun.claim
    directory = options.run_dir / run_dir.CHECKPOINTS
    place = begun.place
    stream = _open_at(data, place)
    require_batch(stream.info.records, options)
    require_validation(options, has_validation=data.validation is not None)
    learner = make_train_state(
        options,
        claim.precision,
        stream.steps_per_epoch,
        data.num_outputs,
        data.input_shape,
        data.multi_label,
        data.class_weights,
        weights=(start or options.weights) if place == Progress() else None,
        team=team,
    )
    kept = checkpoints.Checkpoints(
        directory,
        learner.model,
        learner.optimizer,
        options.keep_checkpoints,
        before=[options.run_dir / run_dir.HISTORY],
    )

    def restore() -> None:
        kept.restore(begun.checkpoint)
        claim.write()

    team.from_chief(restore)
    team.take_from_chief([*learner.model.variables, *learner.optimizer.variables])
    parts = (learner, stream, data.validation, on_event, team)
    run = _Run(options, data.kind, data.multi_label, *parts)
    on_event(run.started(claim.precision, place, data.num_outputs))
    history = list(begun.history)
    was_over = is_over(history, options)
    if not was_over:
        run.finish(history, kept, place, data)
    model_path = options.run_dir / run_dir.MODEL
    best = best_epoch(history, options.monitor)
    best_path = options.run_dir / run_dir.BEST if best else None

    def save() -> None:
        if not (was_over and model_path.exists()):
            learner.save(model_path)
        claim.write_results(history, best)

    team.from_chief(save)
    seconds = time.perf_counter() - started
    on_event(RunDone(model_path, seconds))
    return TrainResult(options.run_dir, model_path, tuple(history), seconds, best, best_path)


@dataclasses.dataclass(frozen=True)
class _Begun:
    """What is there of a run.

    Attributes:
        claim: To its directory.
        checkpoint: The number of the checkpoint that it resumes at; None to begin.
        place: Where that is.
        history: Its epochs so far.
    """

    claim: run_dir.Claim
    checkpoint: int | None
    place: Progress
    history: tuple[EpochDone, ...]


def _begun(team: Team, options: Settings, data: Data, on_event: OnEvent) -> _Begun:
    """What the chief finds in the run directory, which no other worker has to see.

    Raises:
        DamageError: No checkpoint is as it was written.
        InputError: The directory cannot be used, or this worker reads another set than the chief.
    """

    def claimed(policy: str) -> run_dir.Claim:
        return run_dir.Claim(options, policy, data.root_hash, data.class_names, data.normalization)

    def look() -> dict[str, Any]:
        policy = precision.resolve(options.precision, options.strategy)
        claimed(policy).check()
        directory = options.run_dir / run_dir.CHECKPOINTS
        number = checkpoint_files.newest(
            directory, lambda *damage: on_event(CheckpointDamaged(*damage))
        )
        place = checkpoints.progress_of(directory, number)
        history = run_dir.read_history(options.run_dir, place.epochs_done)
        return {
            "policy": policy,
            "checkpoint": number,
            "place": place.to_json(),
            "history": [dataclasses.asdict(epoch) for epoch in history],
            "root_hash": data.root_hash,
        }

    found = team.from_chief(look)
    if found["root_hash"] != data.root_hash:
        raise InputError(
            f"{options.data} is another set on worker {team.index} (root hash {data.root_hash}) "
            f"than on worker 0 ({found['root_hash']}). Give all workers the same set."
        )
    history = tuple(EpochDone(**epoch) for epoch in found["history"])
    place = Progress.from_json(found["place"])
    return _Begun(claimed(found["policy"]), found["checkpoint"], place, history)


def _open_at(data: Data, place: Progress) -> BatchStream:
    if place.reader is not None or not place.epochs_done:
        return data.open_training(place.reader)
    # A checkpoint of version 0.1.0, at the end of an epoch: the rest is read as by a run that began
    # with this version.
    stream = data.open_training(None)
    return data.open_training(stream.state(place.epochs_done * stream.steps_per_epoch))


@dataclasses.dataclass(frozen=True)
class _Shown:
    """What shows a run while it trains.

    Attributes:
        profile: The trace of --profile.
        records: Files; None on workers that write none.
        metrics: For Prometheus, if asked for.
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
    team: Team

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
            head_only=self.options.freeze,
            head_loaded=self.learner.head_loaded,
            worker=self.team.index,
            num_workers=self.team.num_workers,
            collectives=self.team.collectives,
            num_parameter_servers=self.team.num_parameter_servers,
        )

    def finish(
        self,
        history: list[EpochDone],
        kept: checkpoints.Checkpoints,
        place: Progress,
        data: Data,
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
        validation = self.validation and self.team.distribute(self.validation, size)
        minutes = self.options.checkpoint_minutes

        def asked(number: signal.Signals) -> None:
            self.on_event(StopAsked(number))

        taken = make_confusion(data, self.learner)
        with Termination(asked) as termination, self._shown(data) as shown, kept:
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

    @contextlib.contextmanager
    def _shown(self, data: Data) -> Iterator[_Shown]:
        """What shows the run while it trains; the chief writes files."""
        options = self.options
        num_steps = options.epochs * self.stream.steps_per_epoch
        directory = options.run_dir / run_dir.TENSORBOARD if self.team.is_chief else None
        with contextlib.ExitStack() as stack:
            profile = Profile(options.profile, num_steps, directory)
            stack.callback(profile.close)
            records, metrics = None, None
            if self.team.is_chief:
                records = Records(options, data, self.learner)
                stack.callback(records.close)
            if options.metrics_port is not None:
                # Workers of one machine listen on ports one after the other.
                port = options.metrics_port + (options.metrics_port and self.team.index_on_host)
                folder = options.run_dir / run_dir.CHECKPOINTS
                metrics = Metrics(options.metrics_host, port, options.batch_size, folder)
                stack.callback(metrics.close)
                self.on_event(MetricsServed(metrics.url))
            yield _Shown(profile, records, metrics)

    def _run_epoch(
        self, place: Progress, batches: Any, validation: Any, autosave: Autosave, shown: _Shown
    ) -> EpochDone:
        """The rest of the epoch that `place` is in."""
        epochs_done, steps = place.epochs_done, self.stream.steps_per_epoch
        save = functools.partial(autosave.within_epoch, epochs_done)
        report = self._report(epochs_done + 1, "train", steps, save, shown)
        first = epochs_done * steps
        self.learner.loop.next_stop = lambda done: shown.profile.next_stop(first + done) - first
        shown.profile.at(first + place.step)
        totals = self.learner.loop.train(batches, steps, report, place.step, place.totals)
        _require_loss_scale(self.learner.loop.loss_scale, epochs_done + 1)
        measured: Totals | None = None
        if self.validation is not None:
            count = self.validation.steps_per_epoch
            report = self._report(
                epochs_done + 1, "validation", count, lambda *_: save(steps, totals), shown
            )
            # The chief's moving means, which are saved; see `Loop.validate`.
            self.team.take_from_chief(self.learner.model.non_trainable_variables)
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
            input_wait=None if self.options.deterministic else totals.input_wait,
            sparsity=self.options.prune and sparsity_of(self.learner.model),
        )

    def _report(
        self, epoch: int, phase: str, num_steps: int, save: OnSteps, shown: _Shown
    ) -> OnSteps:
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
            first = (epoch - 1) * self.stream.steps_per_epoch
            shown.steps(epoch, phase, step, first, totals, self.learner.loop.loss_scale)
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
