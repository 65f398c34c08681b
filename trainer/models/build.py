"""From a value of `--model` to a network that keeps the promises the loop relies on."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from shard_format.errors import UsageError
from trainer.models import custom

Builder = Callable[[tuple[int, int, int], int], Any]


def find_builder(name: str, models: Mapping[str, Builder]) -> Builder:
    """What builds the model of that name, which is a key of `models` or package.module:function.

    Raises:
        UsageError: There is no such model, module or function.
    """
    if name in models:
        return models[name]
    if ":" in name:
        return custom.find_function(name)
    close = difflib.get_close_matches(name, models, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise UsageError(
        f"a model must be one of {', '.join(models)} or package.module:function, got {name!r} "
        f"in --model. {hint}A module of your own is named with a colon before the function."
    )


def build_model(
    name: str, models: Mapping[str, Builder], input_shape: tuple[int, int, int], num_classes: int
) -> Any:
    """A keras.Model from float32 pictures in [0, 255] to float32 class probabilities.

    With --normalize, which is for functions of the user's own, the pictures are normalized instead.

    Args:
        name: A key of `models`, or package.module:function.
        models: The models that have a name.
        input_shape: `(height, width, channels)` of one picture.
        num_classes: The length of the output.

    Returns:
        The model, [batch, height, width, channels] -> [batch, num_classes]. A builder may end in
        logits or in probabilities. To logits a float32 softmax is added, so a saved model always
        predicts probabilities, and no builder has to think of mixed precision.

    Raises:
        UsageError: There is no such model, or it is no classifier of these pictures.
    """
    model = _call(find_builder(name, models), name, input_shape, num_classes)
    # A forward pass of noise costs a second at worst and tells what no attribute does: whether
    # rows are probabilities. The fixed generator leaves the seed of the training alone.
    noise = np.random.default_rng(0).uniform(0.0, 255.0, (2, *input_shape)).astype(np.float32)
    try:
        output = model(noise, training=False)
    except Exception as error:  # Keras and TensorFlow raise a dozen types for a wrong shape
        raise UsageError(
            f"a model must accept pictures of shape {input_shape}, got {type(error).__name__}: "
            f"{_first_line(error)} (--model {name}). Correct the model or pass --image-size."
        ) from error
    shape, dtype = tuple(output.shape), str(output.dtype.name)
    if shape != (2, num_classes):
        raise UsageError(
            f"a model must map a batch of 2 pictures to shape (2, {num_classes}), one column for "
            f"each class, got {shape} (--model {name}). End it with Dense(num_classes)."
        )
    if not _are_probabilities(np.asarray(output, dtype=np.float32)):
        return _with_softmax(model, input_shape)
    if dtype != "float32":
        raise UsageError(
            f"class probabilities must be float32, got {dtype} from the last layer (--model "
            f"{name}): small ones become 0 and the loss infinite. Pass dtype='float32' to "
            "the last layer, end the model with logits, or use --precision float32."
        )
    return model


def _call(builder: Builder, name: str, input_shape: tuple[int, int, int], num_classes: int) -> Any:
    import keras

    try:
        model = builder(input_shape, num_classes)
    except Exception as error:  # the user's function, or a picture too small for the architecture
        raise UsageError(
            f"a model must build for input shape {input_shape} and {num_classes} classes, got "
            f"{type(error).__name__}: {_first_line(error)} (--model {name}). "
            f"Its signature is {custom.SIGNATURE}; a larger --image-size may help."
        ) from error
    if not isinstance(model, keras.Model):
        raise UsageError(
            f"the function of a model must return a keras.Model, got {type(model).__name__} "
            f"(--model {name}). Its signature is {custom.SIGNATURE}."
        )
    _require_serializable(model, name)
    return model


def _require_serializable(model: Any, name: str) -> None:
    """Found out now, and not when the trained model is to be saved, hours later."""
    import keras

    try:
        keras.saving.serialize_keras_object(model)
    except Exception as error:  # whatever the get_config() of a layer raises
        raise UsageError(
            f"a model must be serializable by Keras, got {type(error).__name__}: "
            f"{_first_line(error)} (--model {name}). Give a layer of your own a get_config()."
        ) from error


def _are_probabilities(output: Any) -> bool:
    # bfloat16 keeps 8 bits, so a row of ten such probabilities may sum to 1 plus or minus 0.02.
    return bool(np.all(output >= 0.0) and np.allclose(output.sum(axis=1), 1.0, atol=0.02))


def _with_softmax(model: Any, input_shape: tuple[int, int, int]) -> Any:
    import keras

    pixels = keras.Input(input_shape, name="pixels")
    logits = model(pixels)
    probabilities = keras.layers.Activation("softmax", dtype="float32", name="probabilities")(
        logits
    )
    return keras.Model(pixels, probabilities, name=model.name)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
