"""What a training starts from: weights in a file, and which layers are trained at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foundation.errors import InputError, UsageError
from trainer.model_files import load_model

Array = npt.NDArray[Any]


def freeze_body(model: Any) -> None:
    """Leaves only the head of a model trainable: the last of its layers that has weights.

    Normalization in the frozen layers uses the means and variances that it has, and keeps them.
    """
    layers = _layers_with_weights(model)
    for layer in layers[:-1]:
        layer.trainable = False


def load_weights(model: Any, path: Path) -> bool:
    """Gives a model the weights in a file, in their order, and says whether it took the head's.

    The head is left as it is where the file has none, or one for other classes.

    Args:
        model: Built.
        path: A `.keras` file, as of an earlier training, or an `.h5` file, as those of
            keras.applications.

    Raises:
        UsageError: The file is none of these kinds.
        InputError: It cannot be read, or holds the weights of another network.
    """
    values = _read(path)
    layers = _layers_with_weights(model)
    body = [(layer, weight) for layer in layers[:-1] for weight in layer.weights]
    head = [(layers[-1], weight) for weight in layers[-1].weights]
    if len(values) not in (len(body), len(body) + len(head)):
        raise InputError(
            f"{path} has {len(values)} weights, and the model has {len(body)} and {len(head)} of "
            "its head. Pass the file of the same network, or its --model."
        )
    for number, ((layer, weight), value) in enumerate(zip(body, values, strict=False), start=1):
        if tuple(weight.shape) != value.shape:
            raise InputError(
                f"Weight {number} in {path} has shape {value.shape}, and '{weight.path}' of layer "
                f"'{layer.name}' has {tuple(weight.shape)}. Pass the file of the same network, or "
                "its --model; --image-size and --max-tokens may be part of a shape too."
            )
    rest = values[len(body) :]
    takes_head = [value.shape for value in rest] == [tuple(weight.shape) for _, weight in head]
    taken = body + head if takes_head else body
    for (_, weight), value in zip(taken, values, strict=False):
        weight.assign(value)
    return takes_head


def _layers_with_weights(model: Any) -> list[Any]:
    """Layers with weights, in the order of the model; those of models within it one by one."""
    layers = []
    for layer in model.layers:
        if hasattr(layer, "layers"):
            layers += _layers_with_weights(layer)
        elif layer.weights:
            layers.append(layer)
    return layers


def _read(path: Path) -> list[Array]:
    """The weights in a file, in the order of the layers."""
    readers = {".keras": _read_keras, ".h5": _read_h5}
    if not path.is_file():
        recipe = (
            ' shardmill downloads nothing. On a machine with a network run: python -c "import '
            "keras; keras.applications.ResNet50(weights='imagenet').save('resnet50.keras')\", with "
            "the name of the network of --model. Copy the file to this machine and pass --weights "
            "resnet50.keras."
        )
        raise InputError(
            f"No file {path} (--weights). Pass a .keras or .h5 file on this machine."
            f"{recipe if path.name.lower() == 'imagenet' else ''}"
        )
    if path.suffix not in readers or path.name.endswith(".weights.h5"):
        raise UsageError(
            f"--weights {path} is no .keras or .h5 file with an order of layers. Save the model "
            "with model.save('FILE.keras') and pass that."
        )
    try:
        return readers[path.suffix](path)
    except InputError:
        raise
    except Exception as error:  # Keras and HDF5 raise a dozen types for a damaged file
        raise InputError(
            f"Cannot read the weights in {path}: {type(error).__name__}: "
            f"{str(error).strip().partition(chr(10))[0]}. Pass another file."
        ) from error


def _read_keras(path: Path) -> list[Array]:
    model = load_model(path)
    return [weight.numpy() for layer in _layers_with_weights(model) for weight in layer.weights]


def _read_h5(path: Path) -> list[Array]:
    """Weights as Keras wrote them until version 3, and as its applications still come."""
    import h5py

    with h5py.File(path) as file:
        group = file.get("model_weights", file)  # of a whole model
        names = [_text(name) for name in group.attrs["layer_names"]]
        return [
            np.asarray(group[name][_text(weight)])
            for name in names
            for weight in group[name].attrs["weight_names"]
        ]


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
