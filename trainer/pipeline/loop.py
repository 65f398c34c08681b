"""The steps of a model in stages.

    forward      each micro-batch through all stages, each stage under a tape of its own
    backward     the last stage from the loss, each other one from the gradients of its outputs
    gradients    added up over micro-batches, on the device of their weight

All of it is one graph, in which TensorFlow runs whatever has its inputs: so devices work on
several micro-batches at once. The order of every sum is fixed nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from typing_extensions import override

from trainer.loop import Loop, fed
from trainer.objective import COUNTS
from trainer.optimization.gradients import dense
from trainer.pipeline.stages import LayerStage, Stages, Values, differentiable, moved

# from the outputs of a stage and its penalties to what is differentiated, beside its outputs
Finish = Callable[[list[Any], list[Any]], Any]


class PipelineLoop(Loop):
    """The steps of a model whose layers are on several devices; see `trainer.loop.Loop`.

    Args:
        stages: The stages; they become the body of the objective.
        microbatches: Parts of a replica's share of a batch.
        recompute: Whether the activations of all stages but the last are computed again in the
            backward pass, rather than kept.
        **options: Arguments of `Loop`.
    """

    def __init__(self, stages: Stages, microbatches: int, recompute: bool, **options: Any) -> None:
        super().__init__(**options)
        self._stages = stages
        self._parts = microbatches * len(stages.devices)
        self._recompute = recompute
        self._objective.body = stages

    @override
    def _gradients(self, batch: Any) -> tuple[Any, Any, list[Any]]:
        rows = self._stages.devices
        copies = [self._stages.copies(row, self._weights) for row in range(len(rows))]
        sums: list[Values] = [{} for _ in rows]
        # A micro-batch goes on with the moving means and random generators of the one before it.
        before = {id(v): v.value for v in self._model.non_trainable_variables}
        state = dict(before)
        losses, counts = tf.constant(0.0), tf.zeros([len(COUNTS)], tf.int64)
        split = [tf.split(value, self._parts) for value in tf.nest.flatten(batch)]
        for index, values in enumerate(zip(*split, strict=True)):
            part = tf.nest.pack_sequence_as(batch, values)
            row = index * len(rows) // self._parts
            more, counted = self._micro_batch(part, row, copies[row], state, sums[row])
            losses, counts = losses + more, counts + counted
        for variable in self._model.non_trainable_variables:
            if state[id(variable)] is not before[id(variable)]:  # not of frozen layers
                variable.assign(state[id(variable)])
        return losses, counts, [self._sum(sums, variable) for variable in self._weights]

    def _micro_batch(
        self, part: Any, row: int, copies: list[Values], state: Values, sums: Values
    ) -> tuple[Any, Any]:
        """The sum of the losses and the counts of a micro-batch.

        Args:
            part: Its records.
            row: Its row of devices.
            copies: The weights of each stage.
            state: Values of the other variables, which it changes.
            sums: Sums of the gradients so far, to which it adds its own.
        """
        inputs, targets, weights = (*part, None)[:3]
        outcome: Any = None

        def loss(outputs: list[Any], penalties: list[Any]) -> Any:
            nonlocal outcome
            outcome = self._objective.trained(outputs[0], targets, weights, values=copies[-1])
            return self._target(outcome.losses, penalties, self._parts)

        tensors = self._stages.inputs(fed(inputs))
        passes = []
        for stage, device, values in zip(
            self._stages.stages, self._stages.devices[row], copies, strict=True
        ):
            is_last = stage is self._stages.stages[-1]
            one = _Pass(stage, device, values, loss if is_last else self._penalty)
            tensors.update(one.forward(tensors, state, keep=is_last or not self._recompute))
            passes.append(one)
        slopes: Values = {}
        for one in reversed(passes):
            one.backward(slopes, sums)
        return tf.reduce_sum(outcome.losses), outcome.counts

    def _penalty(self, outputs: list[Any], penalties: list[Any]) -> Any:
        return self._scaled(tf.add_n(penalties) / self._parts) if penalties else None

    def _sum(self, sums: list[Values], variable: Any) -> Any:
        """The gradient of a weight over all rows of devices; None if it has none."""
        with tf.device(self._stages.home_of(variable)):
            own = [of_row[id(variable)] for of_row in sums if id(variable) in of_row]
            return tf.add_n(own) if own else None


class _Pass:
    """A micro-batch in a stage: its forward pass, and then its backward pass.

    Args:
        stage: The stage.
        device: Its device.
        weights: Values of its weights, on that device.
        finish: What is differentiated, see `Finish`.
    """

    def __init__(self, stage: LayerStage, device: str, weights: Values, finish: Finish) -> None:
        self._stage = stage
        self._device = device
        self._weights = weights
        self._finish = finish
        self._taken: Values = {}
        self._state: Values = {}
        self._taped: Any = None

    def forward(self, tensors: Values, state: Values, keep: bool) -> Values:
        """The outputs by their keys.

        Args:
            tensors: Inputs, and maybe others, by their keys.
            state: Values of all variables but weights, of which this pass changes some.
            keep: Whether the activations are kept for the backward pass.
        """
        with tf.device(self._device):
            self._taken = {key: moved(tensors[key]) for key in self._stage.takes}
            self._state = dict(state)
            if keep:
                self._taped = self._tape()
                _, outputs, _, values = self._taped
            else:
                values = {**self._state, **self._weights}
                outputs, _ = self._stage.run(self._taken, values, training=True)
        state.update((key, value) for key, value in values.items() if key in state)
        return dict(zip(self._stage.gives, outputs, strict=True))

    def backward(self, slopes: Values, sums: Values) -> None:
        """Adds the gradients of the inputs and of the weights.

        Args:
            slopes: Gradients of the tensors between stages, by their keys.
            sums: Gradients of the weights.
        """
        with tf.device(self._device):
            upstream = {key: moved(slopes[key]) for key in self._stage.gives if key in slopes}
            if self._taped is None:
                # Not before the gradients are there, nor merged with the forward pass.
                with tf.control_dependencies(list(upstream.values())):
                    self._taped = self._tape()
            tape, outputs, target, _ = self._taped
            given = dict(zip(self._stage.gives, outputs, strict=True))
            targets = [*(given[key] for key in upstream), *([] if target is None else [target])]
            weights = [*upstream.values(), *([] if target is None else [tf.ones_like(target)])]
            taken = differentiable(self._taken)
            sources = {**taken, **self._weights}
            gradients = tape.gradient(targets, sources, output_gradients=weights)
            for key, gradient in gradients.items():
                if gradient is None:
                    continue
                into = slopes if key in taken else sums
                gradient = dense(gradient)
                if key not in taken:
                    gradient = tf.cast(gradient, tf.float32)
                into[key] = into[key] + gradient if key in into else gradient

    def _tape(self) -> tuple[Any, list[Any], Any, Values]:
        """(tape, outputs, what else is differentiated, values of all variables after it)."""
        values = {**self._state, **self._weights}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([*differentiable(self._taken).values(), *self._weights.values()])
            outputs, penalties = self._stage.run(self._taken, values, training=True)
            target = self._finish(outputs, penalties)
        return tape, outputs, target, values
