"""Training steps of a stack of Dense layers with checkpoints, in one process."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_WARM_UP, _STEPS = 3, 4


def main() -> None:
    """Arguments: MILLIONS of parameters, SAVES, and the FOLDER to write to."""
    millions, saves, folder = float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    import keras
    import numpy as np
    import tensorflow as tf

    from trainer.checkpointing.checkpoints import Checkpoints
    from trainer.checkpointing.progress import Progress
    from trainer.loop import Loop, StepOptions
    from trainer.optimization.optimizers import OPTIMIZERS
    from trainer.strategies import STRATEGIES

    width, depth = 1024, max(1, round(millions * 1e6 / 1024**2))
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
    ending = keras.layers.Dense(10, activation="softmax")
    model = keras.Sequential([keras.Input((width,)), *layers, ending])
    optimizer = OPTIMIZERS["adamw"](1e-4, 0.05)
    optimizer.build(model.trainable_variables)
    loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(8))
    one = tf.data.Dataset.from_tensors((np.ones((8, width), np.float32), np.zeros(8, np.int64)))
    batches = iter(one.repeat())

    def step() -> None:
        loop.train(batches, 1, lambda *_: None)

    for _ in range(_WARM_UP):
        step()
    found: dict[str, list[float]] = {"step": [], "pause": [], "next_step": [], "synchronous": []}
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        kept = Checkpoints(Path(directory), model, optimizer, 2)
        for number in range(saves):
            found["step"] += [_seconds(step) for _ in range(_STEPS)]
            # In turns: the thread that trains waits for all of it, or for the values alone.
            found["synchronous"].append(_seconds(lambda: (kept.save(Progress()), kept.wait())))
            step()
            found["pause"].append(_seconds(lambda: kept.save(Progress())))
            found["next_step"].append(_seconds(step))
            kept.wait()
            if number == 0:  # the first ones also get memory and load libraries
                found = {name: [] for name in found}
    details = {f"{name}_ms": statistics.median(values) * 1e3 for name, values in found.items()}
    details["greatest_pause_ms"] = max(found["pause"]) * 1e3
    details["parameters"] = model.count_params()
    seconds = sum(found["pause"])
    print(json.dumps({"records": len(found["pause"]), "seconds": seconds, "details": details}))


def _seconds(function: Callable[[], object]) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
