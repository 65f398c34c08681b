"""Which numbers the layers compute with, and how long that choice holds."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from foundation.errors import UsageError
from trainer.strategies import WITHOUT_FLOAT16

PRECISIONS = ("auto", "float32", "mixed_float16", "mixed_bfloat16")
"""Values of `--precision`."""

# NVIDIA's first generation with tensor cores, Volta, is compute capability 7.0.
TENSOR_CORES_SINCE = (7, 0)

_CPU_INFO = Path("/proc/cpuinfo")
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # of x86-64, and of Arm


def resolve(precision: str, strategy: str = "default") -> str:
    """The Keras dtype policy of a value of `--precision` on this machine, under a strategy.

    auto is mixed_float16 where every GPU has tensor cores, and float32 on older GPUs, which emulate
    both half precisions. On a CPU it is mixed_bfloat16 if that has instructions for it, else
    float32. bfloat16 has float32's range, so it needs no loss scale. Measured with small_cnn on 2
    cores and TensorFlow 2.21 (November 2026): with avx512_bf16 bfloat16 ran at 0.84 to 1.16 times
    the speed of float32, run by run, and float16 at a sixth; with AVX2 alone (AMD EPYC 7003)
    bfloat16 ran at a seventh.

    Raises:
        UsageError: The strategy does not work with it.
    """
    if precision == "mixed_float16" and strategy in WITHOUT_FLOAT16:
        raise UsageError(
            f"--precision mixed_float16 does not work with --strategy {strategy}. Pass "
            "--precision mixed_bfloat16 or float32."
        )
    if precision != "auto":
        return precision
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if strategy == "tpu" or (gpus and strategy in WITHOUT_FLOAT16):
        return "mixed_bfloat16"
    if not gpus:
        return "mixed_bfloat16" if cpu_has_bfloat16() else "float32"
    capabilities = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability") or (0, 0)
        for gpu in gpus
    ]
    return "mixed_float16" if min(capabilities) >= TENSOR_CORES_SINCE else "float32"


def cpu_has_bfloat16(cpu_info: Path = _CPU_INFO) -> bool:
    """Whether the CPU multiplies bfloat16; False where that is not known.

    Args:
        cpu_info: What Linux says of the CPUs.
    """
    try:
        flags = re.search(r"^(?:flags|Features)\s*:(.*)$", cpu_info.read_text(), re.MULTILINE)
    except OSError:
        return False
    return flags is not None and not _BFLOAT16_FLAGS.isdisjoint(flags[1].split())


@contextlib.contextmanager
def dtype_policy(policy: str) -> Iterator[None]:
    """Layers made inside compute under this policy; the policy from before is put back after."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
