"""How one training step is spread over devices.

To add a strategy: one file with `create() -> tf.distribute.Strategy`, and one line below. The loop
is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foundation.members import Members

STRATEGIES: Members[Callable[[], Any]] = Members(
    {
        "default": "trainer.strategies.default:create",
        "mirrored": "trainer.strategies.mirrored:create",
        "multi_worker": "trainer.strategies.multi_worker:create",
        "parameter_server": "trainer.strategies.parameter_server:create",
        "central_storage": "trainer.strategies.central_storage:create",
        "model_parallel": "trainer.strategies.model_parallel:create",
        "pipeline": "trainer.strategies.pipeline:create",
        "one_device": "trainer.strategies.one_device:create",
        "tpu": "trainer.strategies.tpu:create",
    }
)
"""Value of `--strategy` -> what creates the tf.distribute.Strategy."""

# Those whose model is trained by several processes, which TF_CONFIG names.
SEVERAL_WORKERS = frozenset({"multi_worker", "parameter_server"})
# Those under which Keras 3.15's LossScaleOptimizer does not run, or float16 is no type.
WITHOUT_FLOAT16 = frozenset({"central_storage", "parameter_server", "tpu"})
# Those under which XLA does not compile the model apart, or compiles all of a step anyway.
WITHOUT_JIT = frozenset(
    {"central_storage", "model_parallel", "parameter_server", "pipeline", "tpu"}
)
# Those of Keras on JAX.
ON_JAX = frozenset({"default", "model_parallel"})
