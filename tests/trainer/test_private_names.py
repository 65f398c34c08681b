"""Names of TensorFlow and Keras that are not public: each has a reason here, and is still there.

Where a test fails after an upgrade: look for what replaced the name, or for a public way by now.
"""

import ast
import inspect
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

import trainer

REASONS = {
    "_flatten_layers": "`layers` leaves out the layers within a layer of the user's own",
    "_get_function": "a graph lists its functions as protocol buffers, without the shapes",
    "_keras_mask": "a mask does not come along when a tensor goes to another device",
    "_run_through_graph": "`clone_model`, which calls it, also makes a model of what it walks",
    "_value": "Keras decides on a device when a layer is built, before its stage is known",
    "_host_cross_device_ops": "strategies reduce over all GPUs, and messages are for hosts",
    "_model_variables_moving_average": "Keras gives averages by overwriting the weights only",
    "tensorflow.compiler.xla.tsl.protobuf": "what configure_coordination_service takes",
    "tensorflow.python.eager": "the heartbeats of workers are set, and asked for, in no other way",
}
PUBLIC = {"_replace", "_exit"}  # of namedtuple and of os
OWN = {"self", "cls"}


def private_names(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            if (node.module or "").startswith(("tensorflow.", "keras.src")):
                yield node.module
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            is_own = isinstance(node.value, ast.Name) and node.value.id in OWN
            if not is_own and not node.attr.startswith("__"):
                yield node.attr


def test_each_private_name_has_a_reason():
    files = Path(trainer.__file__).parent.rglob("*.py")
    assert {name for path in files for name in private_names(path)} - PUBLIC == set(REASONS)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("configure_coordination_service", ["service_type", "service_leader", "coordinated_jobs"]),
        ("configure_coordination_service", ["heartbeat_timeout_in_ms"]),
        ("check_collective_ops_peer_health", ["task", "timeout_in_ms"]),
        ("abort_collective_ops", ["code", "message"]),
    ],
)
def test_the_context_of_tensorflow_takes_what_workers_pass(name, parameters):
    taken = inspect.signature(getattr(context.context(), name)).parameters
    assert set(parameters) <= set(taken)
    coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=2)


def test_keras_and_strategies_have_what_is_read():
    layer = keras.layers.Dense(1)
    model = keras.Sequential([keras.Input((1,)), layer])
    assert layer in list(model._flatten_layers())
    assert layer.kernel._value is layer.kernel.value
    calls = []
    model = keras.Model(model.inputs, model.outputs)
    model._run_through_graph(
        model.input,
        operation_fn=lambda operation: operation,
        call_fn=lambda operation, *arguments: calls.append(operation) or operation(*arguments),
    )
    assert calls == [layer]
    assert keras.layers.Masking()(tf.ones([1, 2, 3]))._keras_mask.shape == (1, 2)
    optimizer = keras.optimizers.SGD(use_ema=True)
    optimizer.build(model.trainable_variables)
    shapes = [average.shape for average in optimizer._model_variables_moving_average]
    assert shapes == [weight.shape for weight in model.trainable_variables]
    # Set in an object only, by the strategy of several workers.
    source = inspect.getsource(inspect.getmodule(tf.distribute.MultiWorkerMirroredStrategy))
    assert "self._host_cross_device_ops = " in source
