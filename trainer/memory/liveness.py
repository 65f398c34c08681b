"""How much memory the operations of a step need at once, from its graph: nothing is run.

An output takes memory from its operation to the last one that reads it. TensorFlow starts an
operation as soon as it has its inputs; so the order here is that of the longest way from the
beginning of the graph, with operations of the same length in the order of their tracing.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

# Their output is the memory of their input.
_VIEWS = frozenset({"Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "IdentityN"})
_LOOPS = frozenset({"While", "StatelessWhile"})  # likewise, for every output its input
# Their output is in memory that is there anyway: variables, arguments, constants.
_STORED = frozenset({"ReadVariableOp", "Placeholder", "Const"})
# They write to the memory of an input that nothing reads later.
_IN_PLACE = frozenset(
    {"Add", "AddN", "AddV2", "BiasAdd", "Cast", "Exp", "Maximum", "Minimum", "Mul", "Neg"}
    | {"RealDiv", "Relu", "Relu6", "ReluGrad", "Rsqrt", "SelectV2", "Sigmoid", "Softmax"}
    | {"Sqrt", "Square", "Sub", "Tanh"}
)
_BODIES = ("f", "body", "then_branch", "else_branch")  # attributes that name a graph


def peak_bytes(graph: Any, default: str) -> dict[str, int]:
    """Short name of a device -> bytes of the outputs that are there at once, at most.

    Args:
        graph: A traced graph; all of its shapes are known.
        default: Short name of the device of operations that name none.
    """
    execution = _Execution(graph, default)
    for number, operation in enumerate(execution.operations):
        execution.run(number, operation)
    return dict(execution.peak)


def short_name(device: str) -> str:
    """What a device is called in tables: "GPU:0" of "/job:localhost/.../device:GPU:0"."""
    return device.rpartition("device:")[2]


class _Execution:
    """The outputs that are in memory while the operations of a graph run one after the other.

    Outputs share memory, which is called by the name of the first of them.

    Attributes:
        operations: The operations in order.
        peak: Device -> bytes at most.
    """

    def __init__(self, graph: Any, default: str) -> None:
        self.operations = _in_order(graph)
        self.peak = collections.Counter[str]()
        self._graph = graph
        self._default = default
        self._now = collections.Counter[str]()
        self._held: dict[str, tuple[str, int]] = {}  # memory -> device, bytes
        self._memory = self._memory_by_output()
        self._last_reader: dict[str, int] = {}
        for number, operation in enumerate(self.operations):
            self._read(operation.inputs, number)
        self._read(graph.outputs, len(self.operations))
        self._ending = collections.defaultdict[int, list[str]](list)
        for memory, number in self._last_reader.items():
            self._ending[number].append(memory)

    def run(self, number: int, operation: Any) -> None:
        """Runs an operation: its outputs come, and what it is the last one to read goes."""
        device = self._device(operation)
        if operation.type in _IN_PLACE:
            self._take_over(number, operation)
        for tensor in operation.outputs:
            if self._memory.get(tensor.name) == tensor.name and tensor.name in self._last_reader:
                self._held[tensor.name] = (device, _bytes(tensor))
                self._now[device] += _bytes(tensor)
        for name, size in {device: 0, **_inner_peak(self._graph, operation, device)}.items():
            self.peak[name] = max(self.peak[name], self._now[name] + size)
        for memory in self._ending[number]:
            self._release(memory)

    def _memory_by_output(self) -> dict[str, str]:
        """Name of an output -> its memory; none of what is stored."""
        memory: dict[str, str] = {}
        for operation in self.operations:
            if operation.type in _STORED:
                continue
            for number, tensor in enumerate(operation.outputs):
                memory[tensor.name] = tensor.name
                if operation.type in _VIEWS | _LOOPS:
                    source = operation.inputs[number]
                    is_here = self._device(source.op) == self._device(operation)
                    if is_here and source.name in memory:
                        memory[tensor.name] = memory[source.name]
                    elif is_here and operation.type in _VIEWS:
                        del memory[tensor.name]
        return memory

    def _read(self, tensors: Iterable[Any], number: int) -> None:
        for tensor in tensors:
            if tensor.name in self._memory:
                self._last_reader[self._memory[tensor.name]] = number

    def _take_over(self, number: int, operation: Any) -> None:
        """Lets an output have the memory of an input that no later operation reads."""
        for tensor in operation.inputs:
            memory = self._memory.get(tensor.name, "")
            _, size = self._held.get(memory, ("", 0))
            if size == _bytes(operation.outputs[0]) and self._last_reader[memory] == number:
                self._release(memory)
                return

    def _release(self, memory: str) -> None:
        device, size = self._held.pop(memory, ("", 0))
        self._now[device] -= size

    def _device(self, operation: Any) -> str:
        return short_name(operation.device) or self._default


def _in_order(graph: Any) -> list[Any]:
    depths: dict[str, int] = {}
    operations = graph.get_operations()  # each behind its inputs
    for operation in operations:
        before = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        depths[operation.name] = 1 + max((depths.get(one.name, 0) for one in before), default=0)
    return sorted(operations, key=lambda operation: depths[operation.name])


def _inner_peak(graph: Any, operation: Any, device: str) -> dict[str, int]:
    """The peak within an operation that runs a graph of its own."""
    peaks = [peak_bytes(inner, device) for inner in _graphs_in(graph, operation)]
    names = {name for peak in peaks for name in peak}
    return {name: max(peak.get(name, 0) for peak in peaks) for name in names}


def _graphs_in(graph: Any, operation: Any) -> Iterator[Any]:
    for name in _BODIES:
        if name in operation.node_def.attr and operation.node_def.attr[name].HasField("func"):
            # Private: a graph lists its functions as protocol buffers only, without the shapes.
            function = graph._get_function(operation.get_attr(name).name)
            if function is not None:
                yield function.graph


def _bytes(tensor: Any) -> int:
    """Bytes of an output; 0 of handles and of text."""
    if tensor.dtype in (tf.resource, tf.variant, tf.string):
        return 0
    return int(tensor.shape.num_elements() or 0) * int(tensor.dtype.size)
