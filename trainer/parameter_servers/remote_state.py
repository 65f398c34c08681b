"""A model and its optimizer on parameter servers, and their copy in this process.

Keras 3.15 makes variables under ParameterServerStrategy, and the partitioner divides them into
parts. Training them does not work: a gradient asks a divided variable for its handle
("'ShardedVariable' object has no attribute 'handle'"), and the optimizer puts the moments of a
divided variable, whole, onto the chief. So the optimizer is made for the parts, as if each were a
weight of its own:

    model      kernel [10, 4]  =  part [5, 4] on server 0  +  part [5, 4] on server 1
    optimizer                     moments of it there          moments of it there

The copy has whole variables in the usual order. Checkpoints and models are written from it alone,
so they are those of any strategy and any number of parameter servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from trainer.errors import TrainingError


class RemoteState:
    """A model and its optimizer on parameter servers.

    To be made in the scope of the strategy.

    Args:
        model: Made in that scope.
        make_optimizer: Gives the optimizer of the run, not built yet.
        local_model: The same model in this process.
        local_optimizer: Built optimizer of the local model.

    Attributes:
        model: Model, as given.
        optimizer: Optimizer that was built for the parts.
        parts: Keras variables: every trainable weight, or its parts in order.
    """

    def __init__(
        self,
        model: Any,
        make_optimizer: Callable[[], Any],
        local_model: Any,
        local_optimizer: Any,
    ) -> None:
        self.model = model
        parts = [_parts_of(weight) for weight in model.trainable_variables]
        self.parts = [part for group in parts for part in group]
        self.optimizer = make_optimizer()
        self.optimizer.build(self.parts)
        remote = [[variable.value] for variable in model.variables]
        self._pairs = list(
            zip(
                [*local_model.variables, *local_optimizer.variables],
                [*remote, *_grouped(self.optimizer.variables, [len(group) for group in parts])],
                strict=True,
            )
        )
        for local, group in self._pairs:
            rows = sum(part.shape[0] for part in group) if group[0].shape.rank else 0
            if len(local.shape) != group[0].shape.rank or (rows and rows != local.shape[0]):
                raise TrainingError(
                    f"The optimizer {self.optimizer.name} keeps {local.path} in another order for "
                    "divided weights. Pass another --optimizer, or --strategy multi_worker."
                )

    def push(self) -> None:
        """Gives the parameter servers the values of the copy."""
        for local, group in self._pairs:
            value, start = np.asarray(local.value), 0
            if len(group) == 1:
                group[0].assign(value)
                continue
            for part in group:
                rows = part.shape[0]
                part.assign(value[start : start + rows])
                start += rows

    def pull(self) -> None:
        """Gives the copy the values of the parameter servers."""
        for local, group in self._pairs:
            values = [part.numpy() for part in group]
            local.assign(values[0] if len(values) == 1 else np.concatenate(values))


def _parts_of(weight: Any) -> list[Any]:
    """A Keras variable as itself, or as one Keras variable for each of its parts."""
    parts = getattr(weight.value, "variables", None)
    if parts is None:
        return [weight]
    return [keras.Variable(part, name=weight.name, trainable=True) for part in parts]


def _grouped(variables: list[Any], num_parts: list[int]) -> list[list[Any]]:
    """An optimizer's variables by the weight that they are of.

    Keras 3.15 keeps those that are of no weight first, and then part by part the same number.

    Args:
        variables: Variables of the optimizer.
        num_parts: Number of parts of every weight.
    """
    count = len(variables) // sum(num_parts)  # of a part
    first = len(variables) - count * sum(num_parts)
    groups = [[variable.value] for variable in variables[:first]]
    for number in num_parts:
        block = variables[first : first + count * number]
        groups += [[variable.value for variable in block[slot::count]] for slot in range(count)]
        first += count * number
    return groups
