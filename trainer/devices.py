"""What a process takes of its machine: threads of TensorFlow's pools, memory of its GPUs.

TensorFlow reads both when it starts its devices, and never again.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

from foundation.errors import UsageError
from foundation.wording import parse_size
from trainer.options import TrainOptions

_MIB = 1 << 20


def use_backend(name: str) -> None:
    """Has Keras run on a backend, if that is still open.

    Raises:
        UsageError: It runs on another one.
    """
    if name != "tensorflow" and "keras" not in sys.modules:
        os.environ.setdefault("KERAS_BACKEND", name)
    require_backend(name)


def require_backend(expected: str = "tensorflow") -> None:
    """Checks that Keras runs on a backend, also before it is loaded.

    Raises:
        UsageError: It runs on another backend.
    """
    keras = sys.modules.get("keras")
    name = keras.config.backend() if keras else os.environ.get("KERAS_BACKEND") or "tensorflow"
    if name == expected:
        return
    if expected == "tensorflow":
        advice = "Unset KERAS_BACKEND"
    else:
        advice = f"Set KERAS_BACKEND={expected} before Keras is loaded"
    title = {"tensorflow": "TensorFlow", "jax": "JAX"}[expected]
    raise UsageError(f"Keras runs on KERAS_BACKEND={name}, not on {title}. {advice}.")


def configure_devices(options: TrainOptions) -> None:
    """Applies the options of threads and memory; to be called before anything runs on a device.

    A GPU's memory is taken as it is needed, where TensorFlow would take nearly all of it at once.

    Raises:
        UsageError: TensorFlow has started its devices already, or there is no GPU to limit.
    """
    import tensorflow as tf

    threading = tf.config.threading
    _set_threads(
        "--intra-op-threads",
        options.intra_op_threads,
        threading.get_intra_op_parallelism_threads,
        threading.set_intra_op_parallelism_threads,
    )
    _set_threads(
        "--inter-op-threads",
        options.inter_op_threads,
        threading.get_inter_op_parallelism_threads,
        threading.set_inter_op_parallelism_threads,
    )
    gpus = tf.config.list_physical_devices("GPU")
    if options.backend == "jax":
        _leave_to_jax(gpus)
        return
    if options.stages and not gpus:
        _divide_cpu(options.stages)
    if options.gpu_memory is None:
        _let_memory_grow(gpus)
    elif not gpus:
        raise UsageError(
            f"--gpu-memory {options.gpu_memory}, and TensorFlow finds no GPU. Leave it out."
        )
    else:
        _limit_memory(gpus, options.gpu_memory)


def _leave_to_jax(gpus: list[Any]) -> None:
    """Keeps TensorFlow, which reads the data, from the memory of the GPUs."""
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):  # the program has started its devices
        tf.config.set_visible_devices(list(set(tf.config.get_visible_devices()) - set(gpus)))


def _set_threads(
    flag: str, number: int | None, now: Callable[[], int], change: Callable[[int], None]
) -> None:
    if number is None or number == now():
        return
    try:
        change(number)
    except RuntimeError as error:
        raise _too_late(f"{flag} {number}") from error


def _divide_cpu(stages: int) -> None:
    """Makes the CPU as many devices as there are stages, to try them without GPUs."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    if tf.config.get_logical_device_configuration(cpu) is None:
        with contextlib.suppress(RuntimeError):  # the program has started its devices
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * stages
            )


def _let_memory_grow(gpus: list[Any]) -> None:
    import tensorflow as tf

    for gpu in gpus:
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except (RuntimeError, ValueError):  # the program has started or divided its GPUs itself
            return


def _limit_memory(gpus: list[Any], size: str) -> None:
    import tensorflow as tf

    limit = max(1, parse_size("--gpu-memory", size) // _MIB)
    wanted = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
    for gpu in gpus:
        try:
            tf.config.set_logical_device_configuration(gpu, [wanted])
        except RuntimeError as error:
            raise _too_late(f"--gpu-memory {size}") from error


def _too_late(option: str) -> UsageError:
    return UsageError(
        f"{option} comes too late: this process has used TensorFlow already. Train in a new "
        "process, or leave it out."
    )
