"""Which numbers the layers compute with, and how long that choice holds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from shard_format.errors import UsageError
from trainer.strategies import WITHOUT_FLOAT16

PRECISIONS = ("auto", "float32", "mixed_float16", "mixed_bfloat16")

# NVIDIA's first generation with tensor cores, Volta, is compute capability 7.0.
TENSOR_CORES_SINCE = (7, 0)


def resolve(precision: str, strategy: str = "default") -> str:
    """The Keras dtype policy of a value of `--precision` on this machine, under a strategy.

    auto is mixed_float16 where every GPU has tensor cores, float32 on older GPUs (they emulate both
    half precisions) and mixed_bfloat16 on a CPU. Measured on 2 CPU cores with avx512_bf16 and
    TensorFlow 2.21 (November 2026): convolutions in float16 took 6 times as long as in float32;
    small_cnn in bfloat16 ran at 0.84 to 1.16 times its float32 speed, run by run. bfloat16 has
    float32's range, so it needs no loss scale.

    Raises:
        UsageError: The strategy does not work with it.
    """
    if strategy in WITHOUT_FLOAT16:
        if precision == "mixed_float16":
            raise UsageError(
                f"--precision mixed_float16 does not work with --strategy {strategy}. Pass "
                "--precision mixed_bfloat16 or float32."
            )
        if precision == "auto":
            return "mixed_bfloat16"
    if precision != "auto":
        return precision
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "mixed_bfloat16"
    capabilities = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability") or (0, 0)
        for gpu in gpus
    ]
    return "mixed_float16" if min(capabilities) >= TENSOR_CORES_SINCE else "float32"


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
