"""From a value of `--model` to a network that keeps the promises the loop relies on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from foundation.errors import UsageError
from foundation.wording import did_you_mean
from trainer.models import Builder, custom
from trainer.models.calling import called
from trainer.models.heads import output_activation, separate_head
from trainer.models.shapes import (
    InputShape,
    SequenceShape,
    keras_inputs,
    kind_of_inputs,
    two_examples,
    two_outputs,
)


def find_builder(name: str, models: Mapping[str, Builder]) -> Builder:
    """What builds the model of that name, which is a key of `models` or package.module:function.

    Raises:
        UsageError: There is no such model, module or function.
    """
    if name in models:
        return models[name]
    if ":" in name:
        return custom.find_function(name)
    raise UsageError(
        f"Unknown --model {name!r}. {did_you_mean(name, models)}Pass {', '.join(models)} or "
        "package.module:function; a module of your own is named with a colon before the function."
    )


def build_model(
    name: str,
    models: Mapping[str, Builder],
    input_shape: InputShape,
    num_classes: int,
    activation: str = "softmax",
) -> Any:
    """A keras.Model from images, token ids or packed sequences to float32 probabilities.

    Images are float32 in [0, 255]. With --normalize, which is for functions of the user's own,
    they are normalized instead.

    Args:
        name: A key of `models`, or package.module:function.
        models: The models that have a name.
        input_shape: `(height, width, channels)` of one image, or see `trainer.models.shapes`.
        num_classes: The length of the output; of a language model the number of token ids.
        activation: What makes probabilities of logits: "softmax", or "sigmoid" where an example
            may be of any number of classes.

    Returns:
        The model, [batch, ...] -> [batch, num_classes]; of packed sequences {...: [batch, length]}
        -> [batch, length, num_classes]. A builder may end in logits or in probabilities. To logits
        a float32 activation is added, so a saved model always predicts probabilities, and no
        builder has to think of mixed precision. Training takes the logits below it
        (`trainer.models.heads`).

    Raises:
        UsageError: There is no such model, or it does not fit these inputs.
    """
    model = _call(find_builder(name, models), name, input_shape, num_classes)
    inputs = kind_of_inputs(input_shape)
    # A forward pass of noise costs a second at worst and shows what no attribute does: whether
    # rows are probabilities. The fixed generator leaves the seed of the training alone.
    parts = separate_head(model)
    try:
        output = called(parts.body, two_examples(input_shape))
    except Exception as error:  # Keras and TensorFlow raise a dozen types for a wrong shape
        advice = " or pass --image-size" if inputs == "images" else ""
        raise UsageError(
            f"The model does not accept {inputs} of shape {tuple(input_shape)}: "
            f"{type(error).__name__}: {_first_line(error)} (--model {name}). Correct the "
            f"model{advice}."
        ) from error
    shape, dtype = tuple(output.shape), str(output.dtype.name)
    if parts.head is not None:
        shape = (*shape[:-1], parts.head.units)
    expected = two_outputs(input_shape, num_classes)
    if shape != expected:
        column = "token id" if isinstance(input_shape, SequenceShape) else "class"
        raise UsageError(
            f"The model maps a batch of 2 {inputs} to shape {shape}, not {expected} with one "
            f"column per {column} (--model {name}). End it with Dense(num_classes)."
        )
    if parts.head is not None or not _are_probabilities(model, output, activation):
        return _with_activation(model, input_shape, activation)
    if dtype != "float32":
        raise UsageError(
            f"The last layer gives class probabilities as {dtype}, not float32 (--model {name}): "
            "small ones become 0 and the loss infinite. Pass dtype='float32' to the last layer, "
            "end the model with logits, or use --precision float32."
        )
    return model


def _call(builder: Builder, name: str, input_shape: InputShape, num_classes: int) -> Any:
    try:
        model = builder(input_shape, num_classes)
    except Exception as error:  # the user's function, or an image too small for the architecture
        raise UsageError(
            f"The model cannot be built for input shape {tuple(input_shape)} and {num_classes} "
            f"classes: {type(error).__name__}: {_first_line(error)} (--model {name}). Its "
            f"signature is {custom.SIGNATURE}; a larger --image-size may help."
        ) from error
    if not isinstance(model, keras.Model):
        raise UsageError(
            f"The function of the model returned {type(model).__name__}, not a keras.Model "
            f"(--model {name}). Its signature is {custom.SIGNATURE}."
        )
    _require_serializable(model, name)
    return model


def _require_serializable(model: Any, name: str) -> None:
    """Found out now, and not when the trained model is to be saved, hours later."""
    try:
        keras.saving.serialize_keras_object(model)
    except Exception as error:  # whatever the get_config() of a layer raises
        raise UsageError(
            f"Keras cannot serialize the model: {type(error).__name__}: {_first_line(error)} "
            f"(--model {name}). Give a layer of your own a get_config()."
        ) from error


def _are_probabilities(model: Any, output: Any, activation: str) -> bool:
    if activation == "sigmoid":
        # Any numbers in [0, 1] could be; logits of an untrained model may be there too.
        return output_activation(model) == "sigmoid"
    # bfloat16 keeps 8 bits, so a row of ten such probabilities may sum to 1 plus or minus 0.02.
    rows = np.asarray(output, dtype=np.float32)
    return bool(np.all(rows >= 0.0) and np.allclose(rows.sum(axis=-1), 1.0, atol=0.02))


def _with_activation(model: Any, input_shape: InputShape, activation: str) -> Any:
    inputs = keras_inputs(input_shape)
    probabilities = keras.layers.Activation(activation, dtype="float32", name="probabilities")(
        model(inputs)
    )
    return keras.Model(inputs, probabilities, name=model.name)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
