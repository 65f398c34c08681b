"""A model and its optimizer, created in the scope of the strategy."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from foundation.errors import UsageError
from trainer.checkpointing import run_dir
from trainer.checkpointing.checkpoints import save_model
from trainer.data import Data
from trainer.devices import require_backend
from trainer.jax_backend.layout import divided_model
from trainer.loop import Loop, StepOptions
from trainer.models import MODELS
from trainer.models.batch_norm import as_built, set_synchronized, statistics_of
from trainer.models.build import build_model
from trainer.models.pretrained import freeze_body, load_weights
from trainer.models.shapes import InputShape
from trainer.objective import Objective
from trainer.optimization import OPTIMIZERS, SCHEDULES
from trainer.optimization.optimizers import (
    averages_of,
    states_for_each_weight,
    updating_in_place,
    with_averages,
    with_loss_scale,
)
from trainer.optimization.pruning import Pruning
from trainer.optimization.schedules import DECAY_SHARES, SchedulePlan
from trainer.options import Settings
from trainer.parameter_servers.asynchronous import AsynchronousLoop
from trainer.parameter_servers.bootstrap import Servers
from trainer.parameter_servers.remote_state import RemoteState
from trainer.pipeline.building import Division, divide
from trainer.pipeline.loop import PipelineLoop
from trainer.precision import dtype_policy
from trainer.strategies import STRATEGIES
from trainer.workers.team import Team


@dataclasses.dataclass(frozen=True)
class TrainState:
    """The state of a training: the model, its optimizer, and the loop that runs both.

    Attributes:
        strategy: The tf.distribute.Strategy that holds the variables of both.
        model: Model from float32 images in [0, 255], or from token ids, to float32 probabilities.
        optimizer: Optimizer that was built for the model's weights.
        schedule: Learning rate of a step, counted from 0.
        loop: The steps.
        averages: Id of a weight -> its moving average; empty without --ema.
        head_loaded: Whether a file gave the head its weights too; None if none was loaded.
        changed_batch_norms: The layers whose `synchronized` is not that of the builder.
        division: How the layers are divided among devices; None if they are not.
    """

    strategy: Any
    model: Any
    optimizer: Any
    schedule: Any
    loop: Loop
    averages: dict[int, Any]
    head_loaded: bool | None
    changed_batch_norms: tuple[Any, ...] = ()
    division: Division | None = None

    def save(self, path: Path) -> None:
        """Saves the model as a `.keras` file, with the averages of its weights where there are any.

        Raises:
            InputError: Keras cannot write this model.
        """
        with self.averaged(), as_built(self.changed_batch_norms):
            save_model(self.model, path)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The weights are their moving averages until the context is left."""
        weights = [weight for weight in self.model.weights if id(weight) in self.averages]
        kept = [weight.numpy() for weight in weights]
        for weight in weights:
            weight.assign(self.averages[id(weight)].numpy())
        try:
            yield
        finally:
            for weight, value in zip(weights, kept, strict=True):
                weight.assign(value)

    @property
    def batch_norm(self) -> str | None:
        """Whose statistics normalize a batch: `trainer.models.batch_norm.statistics_of`."""
        return statistics_of(self.model, self.strategy.num_replicas_in_sync)

    @property
    def last_learning_rate(self) -> float:
        """The learning rate of the latest step that changed the weights."""
        return float(self.schedule(max(0, int(self.optimizer.iterations.numpy()) - 1)))


def make_train_state(
    options: Settings,
    precision: str,
    steps_per_epoch: int,
    data: Data,
    weights: Path | None = None,
    team: Team | None = None,
) -> TrainState:
    """The untrained model of a run under its strategy, its weights a function of the seed.

    Args:
        options: Options of the run.
        precision: The Keras dtype policy.
        steps_per_epoch: Steps of an epoch, for the length of the learning-rate schedule.
        data: What the model is fed, and what it predicts.
        weights: A file that only the chief reads, see `trainer.models.pretrained`; None to begin
            with random weights, or with those of a checkpoint.
        team: The processes that train it, with their strategy; None for that of the options.

    Raises:
        UsageError: The options contradict the machine, or name a model that does not fit.
    """
    require_backend(options.backend)
    if options.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(options.seed)
    team = team or Team(STRATEGIES[options.strategy]())
    strategy = team.strategy
    replicas = strategy.num_replicas_in_sync
    _require_equal_shares(options, replicas)
    side = options.image_size or 0
    shape: InputShape = data.input_shape or (side, side, 3)
    schedule = SCHEDULES[options.schedule](_plan(options, steps_per_epoch))

    def create_model() -> Any:
        activation = "sigmoid" if data.multi_label else "softmax"
        model = build_model(options.model, MODELS, shape, data.num_outputs, activation)
        if options.freeze:
            freeze_body(model)
        return model

    def create_optimizer() -> Any:
        optimizer = OPTIMIZERS[options.optimizer](schedule, options.weight_decay)
        if options.ema is not None:
            optimizer = with_averages(optimizer, options.ema)
        return with_loss_scale(optimizer) if precision == "mixed_float16" else optimizer

    divided = None
    if options.backend == "jax":
        if options.mesh is not None:
            divided = divided_model(options.mesh, options.layout, options.batch_size)
        keras.distribution.set_distribution(divided)
    # A model in stages may be too large for a device: it is built on the host.
    host = tf.device("/cpu:0") if options.strategy == "pipeline" else contextlib.nullcontext()
    with strategy.scope(), dtype_policy(precision), host:
        model = create_model()
        if not model.trainable_variables:
            raise UsageError(
                f"The model has no weights to train (--model {options.model}). Make its layers "
                "trainable."
            )
    if divided is not None:
        divided.require_used()
    synchronized = _sync_batch_norm(options, replicas)
    changed = () if synchronized is None else set_synchronized(model, synchronized)
    head_loaded = None
    if weights is not None:
        # Outside of the scope, in which all workers have to create the same variables, and before
        # the optimizer, whose moving averages begin with these weights.
        head_loaded = team.from_chief(lambda: load_weights(model, weights))
    averages: dict[int, Any] = {}
    division = None
    if options.strategy == "pipeline":
        with dtype_policy(precision):
            stored = options.run_dir / run_dir.STAGES
            division = divide(
                options, model, shape, states_for_each_weight(create_optimizer()), stored
            )
    with strategy.scope(), dtype_policy(precision):
        optimizer = create_optimizer()
        optimizer.build(model.trainable_variables)
        if division is not None:
            optimizer = updating_in_place(optimizer)
        if options.ema is not None:
            averages = averages_of(optimizer, model.trainable_variables)
    num_steps = options.epochs * steps_per_epoch
    pruning = options.prune and Pruning(options.prune, num_steps, model, averages)
    # A layer may draw from the seed while it is built; the steps start from the seed again.
    keras.utils.set_random_seed(options.seed)

    def average_of(weight: Any) -> Any:
        return averages.get(id(weight), weight).value

    step_options = StepOptions(
        options.batch_size,
        options.accumulate,
        options.clip_norm,
        average_of if averages else None,
        options.jit,
        pruning or None,
        options.deterministic,
    )

    def objective_of(trained: Any) -> Objective:
        return Objective(trained, options.label_smoothing, data.class_weights, data.multi_label)

    if options.backend == "jax":
        from trainer.jax_backend.loop import JaxLoop  # loads JAX, which is an extra

        getattr(optimizer, "inner_optimizer", optimizer).global_clipnorm = options.clip_norm
        loop: Loop = JaxLoop(
            averages,
            strategy=strategy,
            model=model,
            optimizer=optimizer,
            options=step_options,
            objective=objective_of(model),
        )
    elif isinstance(team, Servers):
        with team.remote.scope(), dtype_policy(precision):
            remote = RemoteState(create_model(), create_optimizer, model, optimizer)
        loop = AsynchronousLoop(team, remote, step_options, objective_of(remote.model))
    elif division is not None:
        loop = PipelineLoop(
            division.stages,
            division.microbatches,
            options.recompute,
            strategy=strategy,
            model=model,
            optimizer=optimizer,
            options=step_options,
            objective=objective_of(model),
        )
    else:
        loop = Loop(strategy, model, optimizer, step_options, objective_of(model))
    loop.agreed_steps = team.of_chief
    return TrainState(
        strategy, model, optimizer, schedule, loop, averages, head_loaded, changed, division
    )


def _require_equal_shares(options: Settings, replicas: int) -> None:
    """Checks that a batch can be divided among devices, and a share into parts.

    Raises:
        UsageError: It cannot.
    """
    if options.batch_size % replicas:
        raise UsageError(
            f"--batch-size {options.batch_size} is not a multiple of the {replicas} devices. Pass "
            f"{options.batch_size // replicas * replicas or replicas}."
        )
    share = options.batch_size // replicas
    if share % options.accumulate:
        raise UsageError(
            f"--accumulate {options.accumulate} does not divide the {share} examples of a "
            f"device in a batch of {options.batch_size}. Pass one of "
            f"{', '.join(str(n) for n in range(1, share + 1) if share % n == 0)}."
        )


def _sync_batch_norm(options: Settings, replicas: int) -> bool | None:
    """What `synchronized` becomes of the layers of batch normalization; None to leave it."""
    if options.sync_batch_norm is not None or options.model not in MODELS:
        return options.sync_batch_norm
    return replicas > 1 and options.obstacle_to_sync_batch_norm is None


def _plan(options: Settings, steps_per_epoch: int) -> SchedulePlan:
    num_steps = options.epochs * steps_per_epoch
    decays = tuple(round(share * num_steps) for share in DECAY_SHARES)
    if options.decay_epochs is not None:
        decays = tuple(int(epoch) * steps_per_epoch for epoch in options.decay_epochs.split(","))
    return SchedulePlan(
        options.learning_rate,
        # At most half the run, so that a run of few epochs reaches the peak and comes down again.
        warmup_steps=round(min(options.warmup_epochs, options.epochs / 2) * steps_per_epoch),
        num_steps=num_steps,
        decay_steps=decays,
    )
