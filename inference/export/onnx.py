"""To ONNX, with Keras's own exporter (tf2onnx), for ONNX Runtime and what reads its files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from foundation.extras import naming_extras
from shard_format import InputError

_TOLERANCE = 1e-3  # of probabilities


def write_onnx(model: Any, example: Any, path: Path) -> None:
    """Writes the model as an ONNX file, which appears once ONNX Runtime has run it.

    Args:
        model: Model in float32.
        example: One input; a loaded model has to be called before Keras exports it.
        path: Path of the file.

    Raises:
        MissingExtraError: A converter or the runtime is not installed.
        InputError: It has no operators for this model, or the file cannot be written.
    """
    with naming_extras():
        import onnxruntime  # noqa: F401
        import tf2onnx  # noqa: F401 (Keras calls it)
    expected = np.asarray(model(example, training=False))
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of Keras's patch for NumPy 2
            model.export(temporary, format="onnx", verbose=False)
        # Keras writes operators that ONNX does not have, such as Erfc for gelu.
        outputs = session(temporary)(example)
        if not np.allclose(outputs, expected, atol=_TOLERANCE):
            raise ValueError(
                f"it predicts other numbers, by {np.abs(outputs - expected).max():.2g}"
            )
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error}. Pass another --out.") from error
    except Exception as error:  # tf2onnx and ONNX Runtime raise their own types
        raise InputError(
            f"ONNX cannot represent this model: {type(error).__name__}: {_last_line(error)}. Use "
            "--to saved-model or tflite."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def session(path: Path) -> Callable[[Any], Any]:
    """What runs an ONNX file, [batch, ...] -> [batch, classes].

    Raises:
        MissingExtraError: ONNX Runtime is not installed.
    """
    with naming_extras():
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    running = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    source = running.get_inputs()[0]
    dtype = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}.get(source.type, np.float32)

    def run(value: Any) -> Any:
        return running.run(None, {source.name: np.asarray(value, dtype)})[0]

    return run


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[-1].rpartition(") , ")[2]
