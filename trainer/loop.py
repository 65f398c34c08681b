"""The one training loop, for every strategy.

Keras 3's `fit` does not run under MultiWorkerMirroredStrategy or ParameterServerStrategy
(keras#20585, #18624), so the trainer owns its steps:

    strategy.run(step) on every replica -> per-replica sums -> strategy.reduce -> totals of a phase

With `jit`, XLA compiles the forward and the backward pass, and nothing else: LossScaleOptimizer
under MirroredStrategy fails with jit_compile (keras#21366), and so would the sums over replicas.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow as tf

from reader.damage import naming_damage
from trainer.errors import TrainingError
from trainer.input_wait import finished_at, next_batch, no_clock, waited_between
from trainer.objective import COUNTS, Objective
from trainer.optimization.gradients import accumulated, clipped, dense, overflow_everywhere
from trainer.optimization.pruning import Pruning

# One call into the graph runs as many steps as fit into this time: long enough that the call
# itself (about 1 ms) does not show, short enough for a progress bar that moves.
CALL_SECONDS = 0.25
MAX_STEPS_PER_CALL = 512


@dataclasses.dataclass(frozen=True)
class Totals:
    """Sums over the examples of a phase, so that a partial batch weighs what it holds.

    An example of a language model is a token to be predicted, one whose weight is not 0.

    Attributes:
        loss: Sum of the losses.
        correct: Examples predicted right: with shares of classes the greatest one, of a
            multi-label example every label.
        examples: Examples.
        bad_step: The first step, counted from 0 in this phase, whose loss was not finite, or -1.
        seconds: Wall time of the steps.
        cpu_seconds: Processor time of this process in them, over all its threads.
        hits: Labels predicted right, of multi-label examples; else 0.
        predicted: Labels predicted, of such examples.
        relevant: Labels that they have.
        waited: Seconds of these in which the device waited for a batch.
    """

    loss: float = 0.0
    correct: int = 0
    examples: int = 0
    bad_step: int = -1
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    hits: int = 0
    predicted: int = 0
    relevant: int = 0
    waited: float = 0.0

    @property
    def mean_loss(self) -> float:
        """Loss per example; 0 where there is none."""
        return self.loss / max(1, self.examples)

    @property
    def accuracy(self) -> float:
        """Share of the examples predicted right, in [0, 1]."""
        return self.correct / max(1, self.examples)

    @property
    def f1(self) -> float:
        """F1 score of all labels of all examples together (micro-averaged), in [0, 1]."""
        return 2 * self.hits / max(1, self.predicted + self.relevant)

    @property
    def input_wait(self) -> float:
        """Share of the seconds in which the device waited for a batch, in [0, 1]."""
        return min(1.0, self.waited / self.seconds) if self.seconds else 0.0

    def since(self, before: Totals) -> Totals:
        """The sums over what came after `before`; the bad step is this one's."""
        names = ("loss", "seconds", "cpu_seconds", "waited", *COUNTS)
        return Totals(
            bad_step=self.bad_step,
            **{name: getattr(self, name) - getattr(before, name) for name in names},
        )


NOTHING = Totals()  # of no step

# called with (steps done, totals so far) after every call into the graph
OnSteps = Callable[[int, Totals], None]


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How a step is computed.

    Attributes:
        batch_size: Records of one training step over all replicas.
        accumulate: Parts of every replica's share of a batch, whose gradients are added up.
        clip_norm: The greatest norm of the gradient of a step; None for any.
        average_of: Function from a weight to its value in validation; None for the weights.
        jit: Whether XLA compiles the forward and the backward pass.
        pruning: What makes weights 0 after each step; None for nothing.
        deterministic: Whether TensorFlow is; the wait for input is then not measured.
    """

    batch_size: int
    accumulate: int = 1
    clip_norm: float | None = None
    average_of: Callable[[Any], Any] | None = None
    jit: bool = False
    pruning: Pruning | None = None
    deterministic: bool = False


class Loop:
    """The steps of one model under one strategy.

    Args:
        strategy: The tf.distribute.Strategy in whose scope model and optimizer were made.
        model: Model to float32 probabilities [batch, ..., num_classes], from float32 images in
            [0, 255] or from whole numbers.
        optimizer: A built Keras optimizer; a LossScaleOptimizer has the loss scaled.
        options: How a step is computed.
        objective: What is minimized; by default the cross-entropy of the model alone.

    Attributes:
        agreed_steps: Function from the steps that fit into the next call, by this process's
            clock, to those that all processes of the strategy take.
        on_predicted: Function called in the graph of a validation step with the classes of its
            targets, the predicted classes, and weights or None; to be set before the first one.
        next_stop: Function from the training steps of a phase that are done to the step at
            which a call has to end.
        is_due: Whether `on_steps` wants the place between two steps, for a checkpoint or the end;
            asked where steps are not made one after the other.
    """

    counts_classes: ClassVar[bool] = True  # whether `on_predicted` is called

    def __init__(
        self,
        strategy: Any,
        model: Any,
        optimizer: Any,
        options: StepOptions,
        objective: Objective | None = None,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._optimizer = optimizer
        self._options = options
        self._objective = objective or Objective(model)
        self._clock = no_clock if options.deterministic else tf.timestamp
        self._scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        # Compiled for each shape of a batch, when it is first run.
        self._compute = (
            tf.function(self._part, jit_compile=True, reduce_retracing=True)
            if options.jit
            else self._part
        )
        self._weights = model.trainable_variables
        self.agreed_steps: Callable[[int], int] = int
        self.is_due: Callable[[], bool] = bool
        self.on_predicted: Callable[[Any, Any, Any], None] | None = None
        self.next_stop: Callable[[int], int] = lambda done: sys.maxsize
        self._train_call = self._several_steps(self._train_step)
        self._validation_call = self._several_steps(self._validation_step)

    @property
    def loss_scale(self) -> float | None:
        """The factor on the loss, or None when the optimizer scales no loss."""
        return float(self._optimizer.dynamic_scale.numpy()) if self._scales_loss else None

    def distribute(self, dataset: Any) -> Any:
        """The data set with every batch divided among the replicas."""
        return self._strategy.experimental_distribute_dataset(dataset)

    def train(
        self,
        batches: Any,
        num_steps: int,
        on_steps: OnSteps,
        done: int = 0,
        totals: Totals = NOTHING,
    ) -> Totals:
        """The totals of `num_steps` training steps on an iterator of distributed batches.

        Args:
            batches: Iterator over the batches of the steps that are not done.
            num_steps: All steps of the phase.
            on_steps: See `OnSteps`.
            done: Steps that are done already.
            totals: Sums over those steps.
        """
        pace = (self.agreed_steps, self.next_stop)
        try:
            return _run_phase(self._train_call, batches, num_steps, on_steps, done, totals, *pace)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            if not self._options.jit or "XLA" not in str(error):
                raise
            reason = _reason(error, "unsupported")
            raise TrainingError(
                f"XLA cannot compile this model: '{reason}'. Leave --jit out."
            ) from error
        except tf.errors.ResourceExhaustedError as error:
            raise TrainingError(
                f"A device has no memory left: '{_reason(error, 'oom when')}'. --dry-run shows how "
                "much a device needs, and which options need less."
            ) from error

    def graph_of_gradients(self, specs: Any) -> Any:
        """The graph of a training step on one replica up to the gradients.

        Args:
            specs: Shapes and dtypes of a batch, all dimensions known.
        """
        return tf.function(self._gradients).get_concrete_function(specs).graph

    def validate(self, batches: Any, num_steps: int, on_steps: OnSteps) -> Totals:
        """The totals of `num_steps` validation steps; no weight changes.

        All replicas measure the model that is saved, which is the first one's: Keras 3.15 lets
        every replica keep moving means of its own in BatchNormalization, and a checkpoint has room
        for one.
        """
        if self._strategy.num_replicas_in_sync > 1:
            for variable in self._model.non_trainable_variables:
                variable.assign(variable.numpy())
        pace = (self.agreed_steps, lambda done: sys.maxsize)
        return _run_phase(self._validation_call, batches, num_steps, on_steps, 0, NOTHING, *pace)

    def _several_steps(self, step: Callable[..., Any]) -> Any:
        """A graph that runs n steps in one call and adds them to the totals it is given.

        Totals go in and come out, rather than being summed per call: the additions are then the
        same ones in the same order however the steps are cut into calls.
        """

        @tf.function(reduce_retracing=True)
        def call(batches: Any, num_steps: Any, done: Any, totals: Any) -> Any:
            loss, counts, bad_step, waited = totals
            finished = tf.constant(0.0, tf.float64)
            for index in tf.range(num_steps):
                batch, asked, arrived = next_batch(batches, self._clock)
                waited += waited_between(asked, arrived, finished)
                sums = self._strategy.run(step, args=batch)
                step_loss, step_counts = (
                    self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
                    for value in sums
                )
                is_first_bad = (bad_step < 0) & ~tf.math.is_finite(step_loss)
                bad_step = tf.where(is_first_bad, done + index, bad_step)
                loss += tf.cast(step_loss, tf.float64)
                counts += step_counts
                finished = finished_at(step_loss, self._clock)
            return loss, counts, bad_step, waited

        return call

    def _train_step(self, *batch: Any) -> Any:
        """One step on a replica's share: [batch, ...] inputs, [batch, ...] targets and weights."""
        variables = self._weights
        losses, counts, gradients = self._gradients(batch)
        if self._options.clip_norm is not None:
            scale = self._optimizer.dynamic_scale if self._scales_loss else 1.0
            gradients = clipped(gradients, self._options.clip_norm, scale)
        if self._scales_loss:
            gradients = overflow_everywhere(gradients)
        pruning = self._options.pruning
        masks = pruning.masks(self._optimizer.iterations.value) if pruning else []
        self._optimizer.apply(gradients, variables)
        if pruning:
            pruning.apply(masks, self._optimizer.iterations.value)
        # Read after the step to know that its weights are there; reading a small one costs nothing.
        smallest = min(variables, key=lambda weight: math.prod(weight.shape))
        with tf.control_dependencies([tf.convert_to_tensor(smallest.value)]):
            return tf.identity(losses), counts

    def _gradients(self, batch: Any) -> tuple[Any, Any, list[Any]]:
        """The sum of the losses, the counts and the gradients of a replica's share of a batch."""
        parts = self._options.accumulate
        if parts == 1:
            return self._compute(batch)
        return accumulated(self._compute, batch, parts, self._weights, len(COUNTS))

    def _part(self, batch: Any) -> tuple[Any, Any, list[Any]]:
        """The sum of the losses, the counts and the gradients of records of a batch."""
        inputs, *further = batch
        shares = self._strategy.num_replicas_in_sync * self._options.accumulate
        with tf.GradientTape() as tape:
            losses, counts, _ = self._objective.training(fed(inputs), *further)
            target = self._target(losses, self._model.losses, shares)
        gradients = map(dense, tape.gradient(target, self._weights))
        return tf.reduce_sum(losses), counts, list(gradients)

    def _target(self, losses: Any, penalties: list[Any], shares: int) -> Any:
        """What is minimized: the part that some records have in the mean loss of their batch.

        Args:
            losses: Losses of the records, [records, ...].
            penalties: The model's own, which are the same on every replica and part.
            shares: Number of parts of the batch over all replicas.
        """
        # Divided by the examples of ALL replicas and parts: the optimizer sums the replicas'
        # gradients, and the sum is then the gradient of the mean over the whole batch. A mean over
        # the replica's own examples would also be NaN for a replica that got none. Tokens of
        # weight 0 are counted too: so every other one weighs the same in every batch.
        per_record = tf.cast(tf.reduce_prod(tf.shape(losses)[1:]), tf.float32)
        loss = tf.reduce_sum(losses) / (self._options.batch_size * per_record)
        return self._scaled(loss + tf.add_n(penalties) / shares if penalties else loss)

    def _scaled(self, loss: Any) -> Any:
        """The loss times the loss scale, if there is one."""
        return self._optimizer.scale_loss(loss) if self._scales_loss else loss

    def _validation_step(self, inputs: Any, *further: Any) -> Any:
        # The last batch may have fewer examples than there are replicas. TensorFlow 2.21's CPU
        # kernels fail on the empty share ("Incompatible shapes: [0,8,8,3] vs. [8]" in a bfloat16
        # BatchNorm), so it gets one example of zeros, and its answer is cut off again.
        filler = tf.where(tf.shape(further[0])[0] == 0, 1, 0)
        inputs = tf.nest.map_structure(lambda value: _filled_up(value, filler), inputs)
        outcome = self._objective.validation(self._options.average_of, fed(inputs), *further)
        if self.on_predicted is not None:
            self.on_predicted(further[0], outcome.predicted, *(further[1:] or (None,)))
        return tf.reduce_sum(outcome.losses), outcome.counts


def fed(inputs: Any) -> Any:
    """What a model is called with: images, which come as uint8, as float32; ids as they are."""
    return tf.nest.map_structure(
        lambda value: value if value.dtype == tf.int64 else tf.cast(value, tf.float32), inputs
    )


def _filled_up(value: Any, count: Any) -> Any:
    """[batch, ...] -> [batch + count, ...]."""
    return tf.pad(value, [[0, count], *([[0, 0]] * (value.shape.rank - 1))])


def _reason(error: Any, word: str) -> str:
    """The line of TensorFlow's message with a word in it."""
    lines = [line.strip() for line in str(error.message).splitlines() if line.strip()]
    return next((line for line in lines if word in line.lower()), lines[0])[:300]


def _run_phase(
    call: Any,
    batches: Any,
    num_steps: int,
    on_steps: OnSteps,
    done: int,
    totals: Totals,
    agreed_steps: Callable[[int], int],
    next_stop: Callable[[int], int],
) -> Totals:
    state = (
        tf.constant(totals.loss, tf.float64),
        tf.constant([getattr(totals, name) for name in COUNTS], tf.int64),
        tf.constant(totals.bad_step, tf.int64),
        tf.constant(totals.waited, tf.float64),
    )
    steps_per_call = 1
    while done < num_steps:
        steps = min(steps_per_call, num_steps - done, next_stop(done) - done)
        started, cpu_started = time.perf_counter(), time.process_time()
        with naming_damage():
            state = call(batches, tf.constant(steps, tf.int64), tf.constant(done, tf.int64), state)
            loss, counts, bad_step, waited = (value.numpy().tolist() for value in state)
        seconds = time.perf_counter() - started
        totals = Totals(
            loss=loss,
            bad_step=bad_step,
            seconds=totals.seconds + seconds,
            cpu_seconds=totals.cpu_seconds + time.process_time() - cpu_started,
            waited=waited,
            **dict(zip(COUNTS, counts, strict=True)),
        )
        done += steps
        on_steps(done, totals)
        # At most doubled: the first call also traces the graph, and says little about a step.
        fitting = int(CALL_SECONDS * steps / max(seconds, 1e-6))
        fitting = max(1, min(2 * steps_per_call, fitting, MAX_STEPS_PER_CALL))
        steps_per_call = agreed_steps(fitting)
    return totals
