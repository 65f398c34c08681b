"""The steps of a model on JAX.

A step is a compiled function from the values of all variables and a batch to the new values:

    gradients of the objective -> the optimizer's update; the old values' memory is used again

Keras's variables take the values after each call, so that checkpoints, history and the trained
model are those of every other run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import keras
import numpy as np
import tensorflow as tf
from keras import ops
from typing_extensions import override

from trainer.loop import Loop

# values of weights, of the other variables of a model, and of the optimizer
State = tuple[list[Any], list[Any], list[Any]]


class JaxLoop(Loop):
    """The steps of a model on JAX; see `trainer.loop.Loop`.

    Args:
        averages: Id of a weight -> the variable of its moving average.
        **options: Arguments of `Loop`.
    """

    counts_classes: ClassVar[bool] = False

    def __init__(self, averages: dict[int, Any], **options: Any) -> None:
        self._averages = averages
        super().__init__(**options)

    @override
    def _several_steps(self, step: Callable[..., Any]) -> Any:
        """A call of several steps, between the tensors that `Loop` hands over."""
        is_training = step == self._train_step
        compiled: Any = None

        def call(batches: Iterator[Any], num_steps: Any, done: Any, totals: Any) -> Any:
            nonlocal compiled
            compiled = compiled or self._compiled(step, is_training)
            loss, counts, bad_step, waited = (value.numpy() for value in totals)
            state = self._state()
            sums: list[Any] = []
            for _ in range(int(num_steps)):
                begun = time.perf_counter()
                is_idle = not sums or sums[-1][0].is_ready()
                batch = self._placed(next(batches))
                waited += is_idle * (time.perf_counter() - begun)
                if is_training:
                    state, *of_step = compiled(state, batch)
                else:
                    of_step = compiled(state, batch)
                sums.append(of_step)
            for index, (step_loss, step_counts) in enumerate(sums):
                if bad_step < 0 and not np.isfinite(step_loss):
                    bad_step = done.numpy() + index
                loss, counts = loss + np.float64(step_loss), counts + np.asarray(step_counts)
            if is_training:
                self._keep(state)
            return tuple(map(tf.constant, (loss, counts, bad_step, waited)))

        return call

    def _compiled(self, step: Callable[..., Any], is_training: bool) -> Any:
        if not is_training:
            return jax.jit(step)
        # The values stay where they are.
        layouts = jax.tree.map(lambda value: value.sharding, self._state())
        return jax.jit(step, donate_argnums=0, out_shardings=(layouts, None, None))

    def planned_memory(self, specs: Any) -> Any:
        """JAX's `CompiledMemoryStats` of a training step, in bytes of each device.

        Args:
            specs: Shapes and dtypes of a batch, all dimensions known.
        """
        zeros = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs)
        step = self._compiled(self._train_step, is_training=True)
        return step.lower(self._state(), self._placed(zeros)).compile().memory_analysis()

    def _variables(self) -> tuple[list[Any], list[Any], list[Any]]:
        model = self._model
        return (
            model.trainable_variables,
            model.non_trainable_variables,
            self._optimizer.variables,
        )

    def _state(self) -> State:
        weights, others, optimizer = (
            [variable.value for variable in variables] for variables in self._variables()
        )
        return weights, others, optimizer

    def _keep(self, state: State) -> None:
        for variables, values in zip(self._variables(), state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

    def _placed(self, batch: Any) -> Any:
        """A batch of tf.data on the devices, divided on the first dimension."""
        distribution = keras.distribution.distribution()

        def placed(value: Any) -> Any:
            array = value.numpy()
            if distribution is None:
                return jax.device_put(array)
            layout = distribution.get_data_layout(array.shape)
            return jax.device_put(array, layout.backend_layout)

        return tf.nest.map_structure(placed, batch)

    @override
    def _train_step(self, state: State, batch: Any) -> Any:
        """(values after the step, sum of the losses, counts)."""
        weights, others, slots = state

        def target(weights: list[Any]) -> Any:
            inputs, targets, counted = (*batch, None)[:3]
            values = self._by_id(weights, others)
            outputs, after, penalties = self._called(values, inputs, training=True)
            outcome = self._objective.trained(outputs, targets, counted, values)
            value = ops.sum(outcome.losses) / outcome.losses.size + sum(penalties)
            return self._scaled_by(slots, value), (ops.sum(outcome.losses), outcome.counts, after)

        gradients, (loss, counts, after) = jax.grad(target, has_aux=True)(weights)
        weights, slots = self._optimizer.stateless_apply(slots, gradients, weights)
        return (weights, after, slots), loss, counts

    @override
    def _validation_step(self, state: State, batch: Any) -> Any:
        weights, others, slots = state
        by_id = dict(zip(map(id, self._optimizer.variables), slots, strict=True))
        averages = [
            by_id[id(self._averages[id(variable)])] if id(variable) in self._averages else value
            for variable, value in zip(self._model.trainable_variables, weights, strict=True)
        ]
        inputs, targets, counted = (*batch, None)[:3]
        values = self._by_id(averages, others)
        outputs, _, _ = self._called(values, inputs, training=False)
        outcome = self._objective.measured(outputs, targets, counted, values)
        return ops.sum(outcome.losses), outcome.counts

    def _by_id(self, weights: Sequence[Any], others: Sequence[Any]) -> dict[int, Any]:
        variables = [*self._model.trainable_variables, *self._model.non_trainable_variables]
        return dict(zip(map(id, variables), [*weights, *others], strict=True))

    def _called(self, values: dict[int, Any], inputs: Any, training: bool) -> Any:
        """(outputs of the body, values after it of the model's other variables, penalties)."""
        body = self._objective.body
        outputs, after, penalties = body.stateless_call(
            [values[id(variable)] for variable in body.trainable_variables],
            [values[id(variable)] for variable in body.non_trainable_variables],
            tf.nest.map_structure(_fed, inputs),
            training=training,
            return_losses=True,
        )
        changed = dict(zip(map(id, body.non_trainable_variables), after, strict=True))
        others = self._model.non_trainable_variables
        return outputs, [changed.get(id(v), values[id(v)]) for v in others], penalties

    def _scaled_by(self, slots: list[Any], value: Any) -> Any:
        """The loss times the loss scale, if there is one."""
        if not self._scales_loss:
            return value
        with keras.StatelessScope(zip(self._optimizer.variables, slots, strict=True)):
            return self._optimizer.scale_loss(value)


def _fed(value: Any) -> Any:
    """What a model is called with, see `trainer.loop.fed`."""
    return value if "int3" in str(value.dtype) else ops.cast(value, "float32")
