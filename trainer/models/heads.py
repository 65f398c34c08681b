"""How a model ends: the logits in it, which training takes, below the probabilities it predicts."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras

_ACTIVATIONS = ("softmax", "sigmoid")


@dataclasses.dataclass(frozen=True)
class ModelParts:
    """A model, cut where training needs it. The parts share the weights of the whole.

    Attributes:
        body: Model from the inputs to logits or, with a head, to what the head takes.
        head: The Dense layer from [batch, length, width] to logits; None for no such layer.
        activation: What the body ends in: "" for logits; "softmax" or "sigmoid" for a model that
            cannot be cut before it, such as a subclass of keras.Model.
    """

    body: Any
    head: Any = None
    activation: str = ""


def output_activation(model: Any) -> str:
    """The activation of the last layer: "softmax", "sigmoid", or an empty string for others."""
    last = _last_layer(model)
    return "" if last is None else _activation(last)


def parts_for_training(model: Any) -> ModelParts:
    """Cuts a model that predicts probabilities, as `build_model` returns it, at its logits."""
    last, activation = _last_layer(model), output_activation(model)
    if not activation or isinstance(last, keras.layers.Dense):
        return ModelParts(model, activation=activation or "softmax")
    before = model.layers[-2]
    wraps = isinstance(before, keras.Model)  # the model of a builder, to which build_model added
    network = before if wraps else keras.Model(inputs_of(model), last.input)
    return separate_head(network)


def separate_head(network: Any) -> ModelParts:
    """Separates the head of a model that predicts logits: of a sequence, it alone makes them."""
    last = _last_layer(network)
    if not _is_plain(last) or len(last.output.shape) != 3:
        return ModelParts(network)
    return ModelParts(keras.Model(inputs_of(network), last.input), last)


def _is_plain(layer: Any) -> bool:
    """Whether a layer does `inputs @ kernel + bias`, and nothing else."""
    return (
        type(layer) is keras.layers.Dense
        and layer.activation is keras.activations.linear
        and layer.activity_regularizer is None
        and layer.quantization_mode is None
        and not layer.lora_enabled
    )


def _last_layer(model: Any) -> Any:
    """The layer that makes the output of a model; None where Keras does not know it."""
    try:
        last = model.layers[-1]
        return last if len(model.outputs) == 1 and last.output is model.outputs[0] else None
    except (AttributeError, IndexError, ValueError):  # no graph of layers, or a layer used twice
        return None


def inputs_of(model: Any) -> Any:
    """Inputs in their structure; a Sequential model, of one input, does not tell it."""
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def _activation(layer: Any) -> str:
    """The name of a layer's activation that makes probabilities, or an empty string."""
    if isinstance(layer, keras.layers.Softmax):
        return "softmax" if layer.axis == -1 else ""
    name = getattr(getattr(layer, "activation", None), "__name__", "")
    return name if name in _ACTIVATIONS else ""
