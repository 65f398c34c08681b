"""The one training loop, for every strategy.

Keras 3's `fit` does not run under MultiWorkerMirroredStrategy or ParameterServerStrategy
(keras#20585, #18624), so the trainer owns its steps:

    strategy.run(step) on every replica -> per-replica sums -> strategy.reduce -> totals of a phase

No step is compiled with XLA: LossScaleOptimizer under MirroredStrategy fails with jit_compile
(keras#21366).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

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
        correct: Examples predicted right; of those with shares of classes, the greatest is right.
        examples: Examples.
        bad_step: The first step, counted from 0 in this phase, whose loss was not finite, or -1.
        seconds: Wall time of the steps.
    """

    loss: float = 0.0
    correct: int = 0
    examples: int = 0
    bad_step: int = -1
    seconds: float = 0.0

    @property
    def mean_loss(self) -> float:
        """Loss per example; 0 where there is none."""
        return self.loss / max(1, self.examples)

    @property
    def accuracy(self) -> float:
        """Share of the examples predicted right, in [0, 1]."""
        return self.correct / max(1, self.examples)


NOTHING = Totals()  # of no step

# called with (steps done, totals so far) after every call into the graph
OnSteps = Callable[[int, Totals], None]


class Loop:
    """The steps of one model under one strategy.

    Args:
        strategy: The tf.distribute.Strategy in whose scope model and optimizer were made.
        model: To float32 probabilities [batch, ..., num_classes], from float32 images in
            [0, 255] or from whole numbers.
        optimizer: A built Keras optimizer; a LossScaleOptimizer has the loss scaled.
        batch_size: Records of one training step over all replicas.
        label_smoothing: Share of the target in [0, 1) that is spread over all classes. Validation
            is measured without it.
    """

    def __init__(
        self,
        strategy: Any,
        model: Any,
        optimizer: Any,
        batch_size: int,
        label_smoothing: float = 0.0,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._optimizer = optimizer
        self._batch_size = batch_size
        self._label_smoothing = label_smoothing
        self._scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
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
            batches: Of the steps that are not done.
            num_steps: All steps of the phase.
            on_steps: See `OnSteps`.
            done: Steps that are done already.
            totals: Theirs.
        """
        return _run_phase(self._train_call, batches, num_steps, on_steps, done, totals)

    def validate(self, batches: Any, num_steps: int, on_steps: OnSteps) -> Totals:
        """The totals of `num_steps` validation steps; no weight changes.

        All replicas measure the model that is saved, which is the first one's: Keras 3.15 lets
        every replica keep moving means of its own in BatchNormalization, and a checkpoint has room
        for one.
        """
        if self._strategy.num_replicas_in_sync > 1:
            for variable in self._model.non_trainable_variables:
                variable.assign(variable.numpy())
        return _run_phase(self._validation_call, batches, num_steps, on_steps, 0, NOTHING)

    def _several_steps(self, step: Callable[[Any, Any], Any]) -> Any:
        """A graph that runs n steps in one call and adds them to the totals it is given.

        Totals go in and come out, rather than being summed per call: the additions are then the
        same ones in the same order however the steps are cut into calls.
        """

        @tf.function(reduce_retracing=True)
        def call(batches: Any, num_steps: Any, done: Any, totals: Any) -> Any:
            loss, correct, examples, bad_step = totals
            for index in tf.range(num_steps):
                sums = self._strategy.run(step, args=next(batches))
                step_loss, step_correct, step_examples = (
                    self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
                    for value in sums
                )
                is_first_bad = (bad_step < 0) & ~tf.math.is_finite(step_loss)
                bad_step = tf.where(is_first_bad, done + index, bad_step)
                loss += tf.cast(step_loss, tf.float64)
                correct += step_correct
                examples += step_examples
            return loss, correct, examples, bad_step

        return call

    def _train_step(self, inputs: Any, targets: Any, weights: Any = None) -> Any:
        """One step on a replica's share: [batch, ...] inputs, [batch, ...] targets and weights."""
        variables = self._model.trainable_variables
        with tf.GradientTape() as tape:
            probabilities = self._model(_fed(inputs), training=True)
            losses = self._losses(targets, probabilities, weights, self._label_smoothing)
            # Divided by the examples of ALL replicas: the optimizer sums the replicas' gradients,
            # and the sum is then the gradient of the mean over the whole batch. A mean over the
            # replica's own examples would also be NaN for a replica that got none. Tokens of
            # weight 0 are counted too: so every other one weighs the same in every batch.
            per_record = tf.cast(tf.reduce_prod(tf.shape(losses)[1:]), tf.float32)
            loss = tf.reduce_sum(losses) / (self._batch_size * per_record)
            if self._model.losses:  # the model's own penalties, the same on every replica
                loss += tf.add_n(self._model.losses) / self._strategy.num_replicas_in_sync
            target = self._optimizer.scale_loss(loss) if self._scales_loss else loss
        gradients = tape.gradient(target, variables)
        if self._scales_loss:
            gradients = _overflow_everywhere(gradients)
        self._optimizer.apply(gradients, variables)
        return _sums(losses, targets, probabilities, weights)

    def _validation_step(self, inputs: Any, targets: Any, weights: Any = None) -> Any:
        # The last batch may have fewer examples than there are replicas. TensorFlow 2.21's CPU
        # kernels fail on the empty share ("Incompatible shapes: [0,8,8,3] vs. [8]" in a bfloat16
        # BatchNorm), so it gets one example of zeros, and its answer is cut off again.
        count = tf.shape(targets)[0]
        filler = tf.where(count == 0, 1, 0)
        inputs = tf.nest.map_structure(lambda value: _filled_up(value, filler), inputs)
        probabilities = self._model(_fed(inputs), training=False)[:count]
        losses = self._losses(targets, probabilities, weights, 0.0)
        return _sums(losses, targets, probabilities, weights)

    def _losses(
        self, targets: Any, probabilities: Any, weights: Any, label_smoothing: float
    ) -> Any:
        """Cross-entropy of every target, [batch, ...] float32, times its weight.

        Targets are classes [batch, ...] of a whole-number type, or the shares of the classes
        [batch, ..., num_classes] float32, as of records that were mixed.
        """
        if label_smoothing or targets.dtype.is_floating:
            shares = targets
            if not targets.dtype.is_floating:
                shares = tf.one_hot(targets, probabilities.shape[-1])
            losses = keras.losses.categorical_crossentropy(
                shares, probabilities, label_smoothing=label_smoothing
            )
        else:
            losses = keras.losses.sparse_categorical_crossentropy(targets, probabilities)
        return losses if weights is None else losses * weights


def _fed(inputs: Any) -> Any:
    """What a model is called with: images, which come as uint8, as float32; ids as they are."""
    return tf.nest.map_structure(
        lambda value: value if value.dtype == tf.int64 else tf.cast(value, tf.float32), inputs
    )


def _filled_up(value: Any, count: Any) -> Any:
    """[batch, ...] -> [batch + count, ...]."""
    return tf.pad(value, [[0, count], *([[0, 0]] * (value.shape.rank - 1))])


def _overflow_everywhere(gradients: list[Any]) -> list[Any]:
    """The gradients, with one made NaN on every replica if any replica's are not finite.

    Keras 3.15 asks only the first replica whether its own, not yet summed gradients are finite
    ("each replica computed the same value, since grads is all-reduced" in LossScaleOptimizer no
    longer holds: the sum moved into the inner optimizer). An overflow on another replica alone is
    then added to the weights of all. Here one number is summed over the replicas, so that the
    first one knows; tests/trainer/test_mirrored.py injects that overflow.
    """
    is_finite = tf.reduce_all(
        [
            tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(gradient)))
            for gradient in gradients
            if gradient is not None
        ]
    )
    num_bad = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, tf.where(is_finite, 0.0, 1.0)
    )
    poison = tf.where(num_bad > 0.0, float("nan"), 0.0)
    first = next(index for index, gradient in enumerate(gradients) if gradient is not None)
    # converted: the gradient of an embedding is sparse, and cannot be added to
    poisoned = tf.convert_to_tensor(gradients[first])
    poisoned += tf.cast(poison, poisoned.dtype)
    return [*gradients[:first], poisoned, *gradients[first + 1 :]]


def _sums(losses: Any, targets: Any, probabilities: Any, weights: Any) -> tuple[Any, Any, Any]:
    # Of a mixture, the class with the greatest share is right.
    classes = tf.argmax(targets, axis=-1) if targets.dtype.is_floating else targets
    predicted = tf.argmax(probabilities, axis=-1, output_type=classes.dtype)
    right = tf.equal(predicted, classes)
    if weights is None:
        return tf.reduce_sum(losses), _count(right), tf.size(classes, out_type=tf.int64)
    counted = weights > 0
    return tf.reduce_sum(losses), _count(right & counted), _count(counted)


def _count(values: Any) -> Any:
    return tf.reduce_sum(tf.cast(values, tf.int64))


def _run_phase(
    call: Any, batches: Any, num_steps: int, on_steps: OnSteps, done: int, totals: Totals
) -> Totals:
    state = (
        tf.constant(totals.loss, tf.float64),
        tf.constant(totals.correct, tf.int64),
        tf.constant(totals.examples, tf.int64),
        tf.constant(totals.bad_step, tf.int64),
    )
    steps_per_call = 1
    while done < num_steps:
        steps = min(steps_per_call, num_steps - done)
        started = time.perf_counter()
        state = call(batches, tf.constant(steps, tf.int64), tf.constant(done, tf.int64), state)
        loss, correct, examples, bad_step = (value.numpy().item() for value in state)
        seconds = time.perf_counter() - started
        totals = Totals(loss, correct, examples, bad_step, totals.seconds + seconds)
        done += steps
        on_steps(done, totals)
        # At most doubled: the first call also traces the graph, and says little about a step.
        fitting = int(CALL_SECONDS * steps / max(seconds, 1e-6))
        steps_per_call = max(1, min(2 * steps_per_call, fitting, MAX_STEPS_PER_CALL))
    return totals
