"""Training steps of the causal Transformer on token ids drawn at random, in one process."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

_WARM_UP = 2


def main() -> None:
    """Arguments: BATCH LENGTH VOCABULARY PRECISION STEPS."""
    batch, length, vocabulary, steps = (int(sys.argv[1 + i]) for i in (0, 1, 2, 4))
    import numpy as np
    import tensorflow as tf

    from trainer.loop import Loop, StepOptions
    from trainer.models import MODELS, SequenceShape, build_model
    from trainer.optimization.optimizers import OPTIMIZERS
    from trainer.precision import dtype_policy
    from trainer.strategies import STRATEGIES

    with dtype_policy(sys.argv[4]):
        shape = SequenceShape(length, vocabulary)
        model = build_model("causal_transformer", MODELS, shape, vocabulary)
        optimizer = OPTIMIZERS["adamw"](1e-3, 0.05)
        optimizer.build(model.trainable_variables)
    loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(batch))
    generator = np.random.default_rng(0)
    ids = generator.integers(0, vocabulary, (batch, length + 1))
    inputs = {
        "tokens": ids[:, :-1],
        "segments": np.ones((batch, length), np.int64),
        "positions": np.tile(np.arange(length), (batch, 1)),
    }
    one = tf.data.Dataset.from_tensors((inputs, ids[:, 1:], np.ones((batch, length), np.float32)))
    batches = iter(one.repeat())
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far: of building
    loop.train(batches, _WARM_UP, lambda *_: None)
    begun, cpu_begun = time.perf_counter(), time.process_time()
    totals = loop.train(batches, steps, lambda *_: None)
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - cpu_begun
    details = {
        "weights_mib": round(4 * model.count_params() / (1 << 20), 1),
        "before_mib": before,
        "peak_mib": _status("VmHWM"),
        "cpu_seconds_per_step": cpu_seconds / steps,
        "loss": totals.mean_loss,
    }
    print(json.dumps({"records": steps * batch, "seconds": seconds, "details": details}))


def _status(name: str) -> float:
    """MiB of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024, 1)


if __name__ == "__main__":
    main()
