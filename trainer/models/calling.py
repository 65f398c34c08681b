"""A call of a model outside of training: to look at it, or at its predictions."""

from __future__ import annotations

from typing import Any

import keras


def called(model: Any, inputs: Any) -> Any:
    """The outputs in inference; on JAX compiled as a whole: one by one, operations take longer."""
    if keras.config.backend() != "jax":
        return model(inputs, training=False)
    import jax

    variables = (model.trainable_variables, model.non_trainable_variables)
    values = [[variable.value for variable in part] for part in variables]

    def call(weights: list[Any], others: list[Any], inputs: Any) -> Any:
        return model.stateless_call(weights, others, inputs, training=False)[0]

    return jax.jit(call)(*values, inputs)
