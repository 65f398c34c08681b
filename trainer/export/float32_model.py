"""A model that computes in float32: devices and other runtimes have no mixed precision."""

from __future__ import annotations

from typing import Any


def in_float32(model: Any) -> Any:
    """The same network with the same weights, every layer in float32."""
    import keras

    described = keras.saving.serialize_keras_object(model)
    copy = keras.saving.deserialize_keras_object(_float32(described))
    copy.set_weights(model.get_weights())
    return copy


def _float32(described: Any) -> Any:
    """A serialized object with its dtype policies replaced."""
    if isinstance(described, dict):
        if described.get("class_name") == "DTypePolicy":
            return {**described, "config": {"name": "float32"}}
        return {
            key: "float32" if key == "dtype" and _is_mixed(value) else _float32(value)
            for key, value in described.items()
        }
    if isinstance(described, (list, tuple)):
        return type(described)(map(_float32, described))
    return described


def _is_mixed(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("mixed_")
