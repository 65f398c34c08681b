"""A model as the calls of its layers, in an order in which each finds what it takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras

from foundation.errors import UsageError
from trainer.models.heads import inputs_of


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a layer, or of a function of `keras.ops`.

    Attributes:
        name: Name of the layer.
        arguments: Positional and named arguments, with KerasTensors in them.
        outputs: KerasTensors that it returns.
    """

    name: str
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    outputs: list[Any]

    @property
    def inputs(self) -> list[Any]:
        """The KerasTensors that it takes."""
        return tensors_of(self.arguments)


@dataclasses.dataclass(frozen=True)
class Calls:
    """The calls of a model.

    Attributes:
        inputs: KerasTensors of its inputs, flattened.
        calls: The calls in order.
        output: KerasTensor of its output.
    """

    inputs: list[Any]
    calls: list[Call]
    output: Any


def tensors_of(structure: Any) -> list[Any]:
    """The KerasTensors in a structure, flattened."""
    leaves = keras.tree.flatten(structure)
    return [leaf for leaf in leaves if isinstance(leaf, keras.KerasTensor)]


def calls_of(model: Any) -> Calls:
    """The calls of a model with one output; those of models within it are taken apart too.

    Raises:
        UsageError: The model has no graph of layers.
    """
    functional = _functional(model)
    if functional is None:
        raise UsageError(
            f"--strategy pipeline divides functional and Sequential models, and {model.name} is a "
            f"{type(model).__name__}. Build it with keras.Model(inputs, outputs), or pass another "
            "--strategy."
        )
    calls: list[Call] = []

    def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
        inner = _functional(operation)
        # A model that is called with more than its inputs (training=False, say) is one operation.
        is_plain = len(args) == 1 and all(value is None for value in kwargs.values())
        if inner is not None and is_plain:
            return walk(inner, args[0])
        outputs = operation(*args, **kwargs)
        calls.append(Call(operation.name, (args, kwargs), tensors_of(outputs)))
        return outputs

    def walk(model: Any, inputs: Any) -> Any:
        # Private: what `keras.models.clone_model` does, which would also make a model of it.
        return model._run_through_graph(inputs, operation_fn=lambda layer: layer, call_fn=call)

    output = walk(functional, functional.input)
    return Calls(keras.tree.flatten(functional.input), calls, keras.tree.flatten(output)[0])


def _functional(operation: Any) -> Any:
    """The graph of layers of a model; None of a layer, and of a model with code of its own."""
    if type(operation) is keras.Sequential and operation.built:
        return keras.Model(inputs_of(operation), operation.outputs[0])
    return operation if type(operation) is _FUNCTIONAL else None


def _functional_type() -> type:
    tensor = keras.Input((1,))
    return type(keras.Model(tensor, tensor))


_FUNCTIONAL = _functional_type()  # no public name
