"""A training run from start to end: its directory, data, model, epochs, the trained model."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foundation.errors import InputError
from shard_format import has_records_of
from trainer import precision
from trainer.checkpointing import checkpoint_files, checkpoints, run_dir
from trainer.checkpointing.best import best_epoch, is_over, require_validation
from trainer.checkpointing.kept_set import keep_set
from trainer.checkpointing.progress import Progress
from trainer.checkpointing.remote_run import copied
from trainer.checkpointing.run_lock import RunLock
from trainer.data import BatchStream, Data, open_data, require_batch
from trainer.devices import configure_devices
from trainer.epochs import Epochs
from trainer.events import (
    EpochDone,
    Notice,
    OnEvent,
    RunDone,
    TrainResult,
    ignore,
)
from trainer.memory.outlook import require_memory
from trainer.options import Settings, TrainOptions
from trainer.starting_programs import starting_program
from trainer.strategies import STRATEGIES
from trainer.train_state import make_train_state
from trainer.workers.bootstrap import joined
from trainer.workers.team import Team


def train(options: TrainOptions, on_event: OnEvent = ignore) -> TrainResult:
    """Trains, as `trainer.train` documents it."""
    configure_devices(options)
    require_memory(options)
    with joined(options, on_event) as team:
        data = open_data(options, (team.index, team.size))
        if data.manifest is not None and (program := starting_program(data.manifest.schema)):
            on_event(Notice(f"labels are learned; {program}"))
        if isinstance(options.run_dir, Path):
            return _train_phases(data, options, options.run_dir, on_event, team)
        with copied(options.run_dir, team, on_event) as copy:
            result = _train_phases(data, options, copy.folder, copy.on_event, team, copy.send)
            team.from_chief(copy.send)
            return copy.result(result)


def _train_phases(
    data: Data,
    options: TrainOptions,
    directory: Path,
    on_event: OnEvent,
    team: Team,
    on_checkpoint: Callable[[], None] = lambda: None,
) -> TrainResult:
    """Trains in a local directory, with --head-epochs the head alone first."""
    options, start = dataclasses.replace(options, run_dir=directory), None
    if options.head_epochs is not None:
        head = train_on(data, _head_run(options), on_event, team, None, on_checkpoint)
        # Without validation the last epoch.
        start = directory / run_dir.HEAD / (run_dir.BEST if head.best else run_dir.MODEL)
    return train_on(data, options, on_event, team, start, on_checkpoint)


def _head_run(options: TrainOptions) -> TrainOptions:
    """The first phase: only the head is trained, for `head_epochs`, in a run directory of its own.

    It has a learning-rate schedule of its own, from the first step to the last of these epochs.
    """
    return dataclasses.replace(
        options,
        run_dir=options.run_dir / run_dir.HEAD,
        epochs=options.head_epochs,
        learning_rate=options.head_learning_rate or options.learning_rate,
        decay_epochs=None,
        freeze=True,
        head_epochs=None,
        head_learning_rate=None,
    )


def train_on(
    data: Data,
    asked: TrainOptions,
    on_event: OnEvent = ignore,
    team: Team | None = None,
    start: Path | None = None,
    on_checkpoint: Callable[[], None] = lambda: None,
) -> TrainResult:
    """One phase of `train`, on any data, which is this worker's part if the team has several.

    It begins with the weights in the file `start`, or in that of the options. `on_checkpoint` is
    called in another thread whenever a checkpoint is whole.
    """
    team = team or Team(STRATEGIES[asked.strategy]())
    options = asked.settled(data.kind)
    with _locked(team, options, on_event):
        return _train_in(data, options, on_event, team, start, on_checkpoint)


@contextlib.contextmanager
def _locked(team: Team, options: Settings, on_event: OnEvent) -> Iterator[None]:
    """The chief, which alone writes there, keeps other runs out of the run directory."""
    directory = options.run_dir
    lock = RunLock(directory)

    def on_unsupported(reason: str) -> None:
        text = f"{directory} cannot be locked ({reason})"
        on_event(Notice(f"{text}; make sure that no other run writes to it"))

    def acquire() -> None:
        run_dir.require_free(directory)
        lock.acquire(on_unsupported)

    try:
        team.from_chief(acquire)
        yield
    finally:
        lock.release()


def _train_in(
    data: Data,
    options: Settings,
    on_event: OnEvent,
    team: Team,
    start: Path | None,
    on_checkpoint: Callable[[], None],
) -> TrainResult:
    """Trains like `train_on`, with the run directory locked."""
    started = time.perf_counter()
    begun = _begun(team, options, data, on_event)
    directory = options.run_dir / run_dir.CHECKPOINTS
    place = begun.place
    stream = _open_at(data, place)
    require_batch(stream.info.records, options)
    require_validation(options, has_validation=data.validation is not None)
    learner = make_train_state(
        options,
        begun.claim.precision,
        stream.steps_per_epoch,
        data,
        weights=(start or options.weights) if place == Progress() else None,
        team=team,
    )
    claim = dataclasses.replace(begun.claim, batch_norm=learner.batch_norm)
    kept = checkpoints.Checkpoints(
        directory,
        learner.model,
        learner.optimizer,
        options.keep_checkpoints,
        before=[options.run_dir / run_dir.HISTORY],
        on_whole=on_checkpoint,
    )

    def restore() -> None:
        kept.restore(begun.checkpoint)
        claim.write()
        if learner.division is not None:
            (options.run_dir / run_dir.STAGES).write_text(learner.division.text, encoding="utf-8")
        if data.manifest is not None:
            has_tokens = data.kind != "image"
            keep_set(options.run_dir, options.data, data.manifest, has_tokens=has_tokens)

    team.from_chief(restore)
    team.take_from_chief([*learner.model.variables, *learner.optimizer.variables])
    epochs = Epochs(options, data, learner, stream, on_event, team)
    on_event(epochs.started(claim.precision, place))
    for line in learner.division.lines if learner.division else ():
        on_event(Notice(line))
    history = list(begun.history)
    was_over = is_over(history, options)
    if not was_over:
        epochs.finish(history, kept, place)
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
    return TrainResult(
        options.run_dir, model_path, tuple(history), seconds, best, best_path, data.baseline
    )


@dataclasses.dataclass(frozen=True)
class _Begun:
    """What is there of a run.

    Attributes:
        claim: Claim to its directory.
        checkpoint: Number of the checkpoint that it resumes at; None to begin.
        place: Progress at that checkpoint.
        history: Epochs of the run so far.
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
        asked = options.precision
        if asked == "auto":  # a run that moves to another machine keeps its own
            asked = run_dir.precision_of(options.run_dir) or asked
        policy = precision.resolve(asked, options.strategy)
        claimed(policy).check()
        directory = options.run_dir / run_dir.CHECKPOINTS
        number = checkpoint_files.newest(
            directory,
            lambda path, fact, used: on_event(
                Notice(f"{path} {fact}; the run resumes at the checkpoint {used.name}")
            ),
        )
        place = checkpoints.progress_of(directory, number)
        if place.reader is not None and has_records_of(
            options.data, data.root_hash, str(place.reader.get("root_hash"))
        ):
            on_event(
                Notice(
                    f"{options.data} was compacted: the run continues with the same records in "
                    f"another order behind step {place.step} of epoch {place.epochs_done + 1}, "
                    "where some come twice and others not"
                )
            )
            place = dataclasses.replace(place, reader=None)
        history = run_dir.read_history(options.run_dir, place.epochs_done)
        return {
            "policy": policy,
            "checkpoint": number,
            "place": place.to_json(),
            "history": [dataclasses.asdict(epoch) for epoch in history],
            "root_hash": data.root_hash,
        }

    begun = team.from_chief(look)
    if begun["root_hash"] != data.root_hash:
        raise InputError(
            f"{options.data} is another set on worker {team.index} (root hash {data.root_hash}) "
            f"than on worker 0 ({begun['root_hash']}). Give all workers the same set."
        )
    history = tuple(EpochDone(**epoch) for epoch in begun["history"])
    place = Progress.from_json(begun["place"])
    return _Begun(claimed(begun["policy"]), begun["checkpoint"], place, history)


def _open_at(data: Data, place: Progress) -> BatchStream:
    if place.reader is not None or place == Progress():
        return data.open_training(place.reader)
    # The set was compacted, or it is a checkpoint of version 0.1.0, at the end of an epoch: the
    # rest is read as by a run that began with this set and version.
    stream = data.open_training(None)
    steps = place.epochs_done * stream.steps_per_epoch + place.step
    return data.open_training(stream.state(global_step=steps))
