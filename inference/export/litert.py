"""To LiteRT (.tflite), for phones and small machines, with TensorFlow's converter.

The file has the network alone: pixels or token ids in, probabilities out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from foundation.extras import naming_extras
from shard_format import InputError

# called for records, each a list of one input [1, ...]
Records = Callable[[], Iterator[list[Any]]]


def convert(model: Any, input_spec: Any, quantization: str, records: Records) -> bytes:
    """The model as a LiteRT file.

    Args:
        model: Model in float32.
        input_spec: tf.TensorSpec of one input, [1, ...].
        quantization: One of `QUANTIZATIONS`.
        records: Inputs to measure ranges on.

    Raises:
        InputError: LiteRT has no operations for this model.
    """
    import keras

    with tempfile.TemporaryDirectory() as folder:
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint(
            "serve", lambda inputs: model(inputs, training=False), input_signature=[input_spec]
        )
        archive.write_out(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        # Weights as constants: the calibration for int8 fails on variables.
        converter.experimental_enable_resource_variables = False
        if quantization != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]  # weights in int8
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        if quantization == "int8":
            converter.representative_dataset = records
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        try:
            content: bytes = converter.convert()
        except Exception as error:  # the converter raises its own type, and bare ones
            lines = str(error).strip().splitlines() or ["no message"]
            raise InputError(
                f"LiteRT cannot represent this model with --quantize {quantization}: {lines[0]}. "
                "Pass another --quantize, or --to saved-model."
            ) from error
        return content


def interpreter(path: Path) -> Callable[[Any], Any]:
    """What runs a LiteRT file on one input, [1, ...] -> [1, classes].

    Raises:
        MissingExtraError: The interpreter is not installed.
    """
    with naming_extras():
        from ai_edge_litert.interpreter import Interpreter
    running = Interpreter(model_path=str(path), num_threads=1)
    running.allocate_tensors()
    source, target = running.get_input_details()[0], running.get_output_details()[0]

    def run(value: Any) -> Any:
        running.set_tensor(source["index"], np.asarray(value, source["dtype"]))
        running.invoke()
        return running.get_tensor(target["index"])

    return run
