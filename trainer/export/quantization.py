"""How a LiteRT model stores its numbers: the values of --quantize."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

# called for records, each a list of one input [1, ...]
Records = Callable[[], Iterator[list[Any]]]


def keep(converter: Any, records: Records) -> None:
    """Weights and values stay float32."""


def dynamic(converter: Any, records: Records) -> None:
    """Weights in int8; values are quantized while the model runs."""
    import tensorflow as tf

    converter.optimizations = [tf.lite.Optimize.DEFAULT]


def float16(converter: Any, records: Records) -> None:
    """Weights in float16; a CPU computes in float32."""
    import tensorflow as tf

    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]


def int8(converter: Any, records: Records) -> None:
    """Weights and values in int8, with ranges measured on records; input and output are float32."""
    import tensorflow as tf

    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = records
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]


# value of --quantize -> what asks the converter for it
QUANTIZATIONS: dict[str, Callable[[Any, Records], None]] = {
    "none": keep,
    "dynamic": dynamic,
    "float16": float16,
    "int8": int8,
}
