"""Which calls of a model a device makes: as equal shares of time and memory as can be.

What a call costs is measured, on the first device: a forward and a backward pass of a micro-batch.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from foundation.errors import UsageError, file_error
from foundation.wording import counted
from trainer.pipeline.calls import Calls
from trainer.pipeline.stages import LayerStage, Values, differentiable, stage_of

_TURNS = 3  # of which the fastest counts; the first one also loads kernels
_HALVINGS = 40  # of the interval in which the greatest share of a device is


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a call.

    Attributes:
        seconds: Time of a forward and a backward pass of one micro-batch.
        weight_bytes: Bytes of the weights that are not in an earlier call.
        activation_bytes: Bytes of the outputs for one micro-batch.
    """

    seconds: float
    weight_bytes: int
    activation_bytes: int


def measured(calls: Calls, inputs: Any, device: str) -> list[Cost]:
    """The cost of every call.

    Args:
        calls: Calls of a model whose variables are on the host.
        inputs: A micro-batch, in the structure of the inputs of the model.
        device: The device that is measured.
    """
    tensors = dict(zip(map(id, calls.inputs), keras.tree.flatten(inputs), strict=True))
    costs, seen = [], set[int]()
    with tf.device(device):
        for number in range(len(calls.calls)):
            stage = stage_of(calls, number, number + 1)
            outputs, seconds = _timed(stage, tensors)
            tensors.update(zip(stage.gives, outputs, strict=True))
            new = [v for v in stage.layers.variables if id(v) not in seen]
            seen.update(map(id, new))
            costs.append(Cost(seconds, sum(map(_bytes, new)), sum(map(_bytes, outputs))))
    return costs


def balanced(costs: Sequence[Cost], stages: int, weight_factor: float, parts: int) -> list[int]:
    """The first call of every stage, so that the greatest share of a stage is the least possible.

    A share is that of the time, or of the memory, whichever is greater: a device that has half of
    the time makes all others wait, and one that has half of the memory needs the most of it.

    Args:
        costs: Costs of the calls.
        stages: Number of stages, at most that of the calls.
        weight_factor: Bytes of a weight, its gradient and the optimizer's state of it, over those
            of the weight.
        parts: Micro-batches whose activations are kept at the same time.
    """
    seconds = [cost.seconds for cost in costs]
    sizes = [weight_factor * c.weight_bytes + parts * c.activation_bytes for c in costs]
    shares = [
        (one / (sum(seconds) or 1.0), other / (sum(sizes) or 1.0))
        for one, other in zip(seconds, sizes, strict=True)
    ]
    low, high = 0.0, 2.0  # a rounded sum of all shares may be above 1
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if len(_filled(shares, middle)) <= stages:
            high = middle
        else:
            low = middle
    begins = _filled(shares, high)
    # Where fewer stages are as good, the rest take single calls from the end.
    return _split_up(begins, stages, len(shares))


def _filled(shares: Sequence[tuple[float, float]], limit: float) -> list[int]:
    """Stages that take calls while they stay within a limit."""
    begins, time_share, size_share = [0], 0.0, 0.0
    for number, (one, other) in enumerate(shares):
        time_share, size_share = time_share + one, size_share + other
        if number > begins[-1] and max(time_share, size_share) > limit:
            begins.append(number)
            time_share, size_share = one, other
    return begins


def _split_up(begins: list[int], stages: int, num_calls: int) -> list[int]:
    for number in reversed(range(num_calls)):
        if len(begins) >= stages:
            break
        if number not in begins:
            begins = sorted([*begins, number])
    return begins


def read_placement(path: Path, calls: Calls, stages: int) -> list[int]:
    """The first call of every stage, from a file like that of `placement_text`.

    Args:
        path: The file.
        calls: Calls of the model.
        stages: Number of stages.

    Raises:
        InputError: The file cannot be read.
        UsageError: It is not text, or for another model, or another number of stages.
    """
    try:
        words = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise file_error(error, str(path)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text: {error}. Pass a file like stages.txt.") from error
    numbers = [word[0] for word in words if word]
    if len(numbers) != len(calls.calls):
        raise UsageError(
            f"{path} has {counted(len(numbers), 'line')}, and the model "
            f"{counted(len(calls.calls), 'layer')}. Pass a file with a line for each layer: the "
            "number of its stage, and its name."
        )
    lines = [(number, word) for number, word in enumerate(words, 1) if word]
    for (number, word), call in zip(lines, calls.calls, strict=True):
        if len(word) == 2 and _kind(word[1]) != _kind(call.name):
            raise UsageError(
                f"Line {number} of {path} is for the layer {word[1].strip()}, and the model has "
                f"{call.name} there. Pass the stages.txt of such a model."
            )
    expected = [str(stage + 1) for stage in range(stages)]
    begins = [numbers.index(number) for number in expected if number in numbers]
    if list(dict.fromkeys(numbers)) != expected or sorted(numbers, key=int) != numbers:
        raise UsageError(
            f"{path} does not have the stages 1 to {stages} in order, with a layer for each. "
            "Correct the numbers, or --stages."
        )
    return begins


def _kind(name: str) -> str:
    """A name of a layer without the number that Keras counts such layers by."""
    return re.sub(r"(_\d+)?$", "", name.strip())


def placement_text(calls: Calls, begins: Sequence[int]) -> str:
    """A line for each layer: the number of its stage, from 1 on, and its name."""
    lines, stage = [], 0
    for number, call in enumerate(calls.calls):
        stage += number in begins
        lines.append(f"{stage} {call.name}\n")
    return "".join(lines)


def _timed(stage: LayerStage, tensors: Values) -> tuple[list[Any], float]:
    """The outputs of a stage, and the seconds of a forward and a backward pass."""
    values = {id(v): tf.identity(v.value) for v in stage.layers.variables}
    weights = [values[id(v)] for v in stage.layers.trainable_variables]
    sources = [*weights, *differentiable({key: tensors[key] for key in stage.takes}).values()]
    best = float("inf")
    for _ in range(_TURNS):
        start = time.perf_counter()
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs, _ = stage.run(tensors, values, training=True)
        given = differentiable(dict(zip(stage.gives, outputs, strict=True)))
        gradients = tape.gradient(list(given.values()), sources) if given else []
        for tensor in [*outputs, *(one for one in gradients if one is not None)]:
            tf.convert_to_tensor(tensor).numpy()  # a GPU is done when it has answered
        best = min(best, time.perf_counter() - start)
    return outputs, best


def _bytes(value: Any) -> int:
    """Bytes of a tensor, or of a Keras variable."""
    return math.prod(value.shape) * int(tf.as_dtype(value.dtype).size)
