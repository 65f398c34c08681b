"""The stages of a model: its layers on several devices, with their variables.

With more devices than stages, each row of devices is a replica, which works on micro-batches of
its own. Variables and the state of the optimizer are on the devices of the first row; the others
copy weights when a step begins, and send gradients when it ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from foundation.errors import UsageError
from trainer.pipeline.calls import Calls

Values = dict[int, Any]  # id of a Keras variable -> its value


@dataclasses.dataclass(frozen=True)
class LayerStage:
    """Consecutive layers of a model.

    Attributes:
        layers: Model of these layers, from a list of tensors to a list of tensors.
        takes: Keys of its inputs: the tensors of other stages, and the inputs of the model.
        gives: Keys of its outputs.
    """

    layers: Any
    takes: list[int]
    gives: list[int]

    def run(self, tensors: Values, values: Values, training: bool) -> tuple[list[Any], list[Any]]:
        """Calls the layers.

        Args:
            tensors: Inputs by their keys.
            values: Values of all variables; those that a call changes, such as moving means and
                the states of random generators, are replaced.
            training: As of `keras.Model.__call__`.

        Returns:
            The outputs, and the penalties on weights and activations.
        """
        fixed = self.layers.non_trainable_variables
        outputs, changed, penalties = self.layers.stateless_call(
            [values[id(variable)] for variable in self.layers.trainable_variables],
            [values[id(variable)] for variable in fixed],
            [tensors[key] for key in self.takes],
            training=training,
            return_losses=True,
        )
        for variable, value in zip(fixed, changed, strict=True):
            values[id(variable)] = value
        return keras.tree.flatten(outputs), penalties


class Stages:
    """The body of a model in stages, which is called like the model.

    Args:
        calls: The calls of the model.
        begins: Number of the first call of each stage; the first one is 0.
        devices: [replicas, stages] names of devices.

    Attributes:
        stages: The stages.
        devices: The devices.
        trainable_variables: Those of the model, stage by stage.
        non_trainable_variables: Likewise.

    Raises:
        UsageError: A layer with a penalty on its weights is in two stages.
    """

    def __init__(
        self, calls: Calls, begins: Sequence[int], devices: Sequence[Sequence[str]]
    ) -> None:
        ends = [*begins[1:], len(calls.calls)]
        self.stages = [stage_of(calls, begin, end) for begin, end in zip(begins, ends, strict=True)]
        self.devices = devices
        self._inputs = [id(tensor) for tensor in calls.inputs]
        self._output = id(calls.output)
        self._calls = calls  # keys are ids of its tensors
        self._homes = _homes([stage.layers.variables for stage in self.stages])
        self.trainable_variables = self._distinct(lambda layers: layers.trainable_variables)
        self.non_trainable_variables = self._distinct(lambda layers: layers.non_trainable_variables)

    def _distinct(self, variables_of: Callable[[Any], list[Any]]) -> list[Any]:
        listed = [v for stage in self.stages for v in variables_of(stage.layers)]
        return list({id(variable): variable for variable in listed}.values())

    def home_of(self, variable: Any) -> str:
        """The device of a variable; of one outside of the body, such as the head, the last one."""
        return self.devices[0][self._homes.get(id(variable), len(self.stages) - 1)]

    def move(self, variables: Iterable[Any]) -> None:
        """Moves Keras variables to the devices of their stages, before an optimizer is built."""
        for variable in variables:
            with tf.device(self.home_of(variable)):
                # Private: Keras decides on a device when a layer is built, and the stages are
                # known when all are.
                variable._value = tf.Variable(
                    variable.numpy(), trainable=variable.trainable, name=variable.name
                )

    def copies(self, row: int, weights: Sequence[Any]) -> list[Values]:
        """The values of weights, stage by stage, on the devices of a row.

        Args:
            row: Number of the row.
            weights: All weights that are trained, the head's too.
        """
        copies: list[Values] = []
        for number, stage in enumerate(self.stages):
            own = {id(variable) for variable in stage.layers.variables}
            with tf.device(self.devices[row][number]):
                copies.append(
                    {
                        id(v): tf.identity(v.value)
                        for v in weights
                        if id(v) in own
                        or (number + 1 == len(self.stages) and id(v) not in self._homes)
                    }
                )
        return copies

    def inputs(self, inputs: Any) -> Values:
        """The inputs of the model, by their keys."""
        return dict(zip(self._inputs, keras.tree.flatten(inputs), strict=True))

    def __call__(self, inputs: Any, training: bool = False) -> Any:
        """The output of the model, [batch, ...], on the last device of the first row."""
        return self.stateless_call(
            [variable.value for variable in self.trainable_variables],
            [variable.value for variable in self.non_trainable_variables],
            inputs,
            training=training,
        )[0]

    def stateless_call(
        self, trainable: list[Any], fixed: list[Any], inputs: Any, training: bool = False
    ) -> tuple[Any, list[Any]]:
        """As of `keras.Model`, with the values of the variables of the attributes above."""
        variables = [*self.trainable_variables, *self.non_trainable_variables]
        pairs = zip(variables, [*trainable, *fixed], strict=True)
        values = {id(variable): value for variable, value in pairs}
        tensors = self.inputs(inputs)
        for stage, device in zip(self.stages, self.devices[0], strict=True):
            with tf.device(device):
                taken = {key: moved(tensors[key]) for key in stage.takes}
                outputs, _ = stage.run(taken, values, training)
            tensors.update(zip(stage.gives, outputs, strict=True))
        after = [values[id(variable)] for variable in self.non_trainable_variables]
        return tensors[self._output], after


def moved(tensor: Any) -> Any:
    """A tensor on the device of the scope, with the mask that a layer gave it."""
    copy = tf.identity(tensor)
    mask = getattr(tensor, "_keras_mask", None)  # as Keras hands it from layer to layer
    if mask is not None:
        copy._keras_mask = tf.identity(mask)
    return copy


def _homes(variables: list[list[Any]]) -> dict[int, int]:
    """Id of a variable -> the first stage that has it.

    Raises:
        UsageError: A weight with a penalty is in two stages.
    """
    homes: dict[int, int] = {}
    for stage, listed in enumerate(variables):
        for variable in listed:
            home = homes.setdefault(id(variable), stage)
            if home != stage and getattr(variable, "regularizer", None) is not None:
                raise UsageError(
                    f"The layer of {variable.path} has a regularizer and is called in the stages "
                    f"{home + 1} and {stage + 1}, where each would add the penalty. Put both calls "
                    "into one stage with --place, or leave the regularizer out."
                )
    return homes


def stage_of(calls: Calls, begin: int, end: int) -> LayerStage:
    """The stage that makes the calls [begin, end)."""
    before = [*calls.inputs, *_given(calls, 0, begin)]
    here = _given(calls, begin, end)
    taken = _used(before, [t for call in calls.calls[begin:end] for t in call.inputs])
    later = [t for call in calls.calls[end:] for t in call.inputs]
    given = _used(here, [*later, calls.output])
    return LayerStage(keras.Model(taken, given), [id(t) for t in taken], [id(t) for t in given])


def _given(calls: Calls, begin: int, end: int) -> list[Any]:
    return [tensor for call in calls.calls[begin:end] for tensor in call.outputs]


def _used(tensors: list[Any], users: list[Any]) -> list[Any]:
    """Those of the tensors that are among the users, in their order."""
    keys = {id(user) for user in users}
    return [tensor for tensor in tensors if id(tensor) in keys]


def differentiable(tensors: Values) -> Values:
    """Those of floating types."""
    return {key: tensor for key, tensor in tensors.items() if tensor.dtype.is_floating}
