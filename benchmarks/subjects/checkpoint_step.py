"""Training steps of a stack of Dense layers with one kind of checkpoint, in one process."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.subjects.clock import measure

_WIDTH, _BATCH = 2048, 512
_WARM_UP, _STEPS = 3, 5  # steps before the first checkpoint, and without one before each


def main() -> None:
    """Arguments: WAY of checkpointing, MILLIONS of parameters, SAVES, FOLDER to write to."""
    way, millions, saves = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    import keras
    import numpy as np
    import tensorflow as tf

    from trainer.loop import Loop, StepOptions
    from trainer.optimization import OPTIMIZERS
    from trainer.strategies import STRATEGIES

    depth = max(1, round(millions * 1e6 / _WIDTH**2))
    layers = [keras.layers.Dense(_WIDTH, activation="relu") for _ in range(depth)]
    ending = keras.layers.Dense(10, activation="softmax")
    model = keras.Sequential([keras.Input((_WIDTH,)), *layers, ending])
    optimizer = OPTIMIZERS["adamw"](1e-4, 0.05)
    optimizer.build(model.trainable_variables)
    loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(_BATCH))
    batch = (np.ones((_BATCH, _WIDTH), np.float32), np.zeros(_BATCH, np.int64))
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())

    def step() -> None:
        loop.train(batches, 1, lambda *_: None)

    for _ in range(_WARM_UP):
        step()
    details: dict[str, Any] = {
        "parameters": model.count_params(),
        "state_bytes": sum(
            v.value.numpy().nbytes for v in (*model.variables, *optimizer.variables)
        ),
    }
    with tempfile.TemporaryDirectory(dir=sys.argv[4]) as folder:
        save, is_writing, wait = _WAYS[way](Path(folder), model, optimizer)

        def work() -> int:
            rounds = [_round(step, save, is_writing, wait) for _ in range(saves + 1)]
            # The first one also gets memory and loads libraries.
            details.update(_medians(rounds[1:]))
            return saves

        measure(work, details)


def _round(
    step: Callable[[], None],
    save: Callable[[], object],
    is_writing: Callable[[], bool],
    wait: Callable[[], object],
) -> dict[str, float]:
    """Seconds of steps alone, and of what one checkpoint takes of the steps behind it."""
    alone = statistics.median(_seconds(step) for _ in range(_STEPS))
    begun = time.perf_counter()
    pause, behind = _seconds(save), _seconds(step)
    meanwhile = []
    while is_writing():
        meanwhile.append(_seconds(step))
    wait()
    written = time.perf_counter() - begun
    lost = pause + sum(max(0.0, one - alone) for one in (behind, *meanwhile))
    return {
        "step": alone,
        "pause": pause,
        "step_behind": behind,
        "stall": pause + max(0.0, behind - alone),
        "steps_meanwhile": len(meanwhile),
        "written": written,
        "lost": lost,
    }


def _medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(one[name] for one in rounds), 4) for name in rounds[0]}


def _seconds(function: Callable[[], object]) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def _ours(folder: Path, model: Any, optimizer: Any) -> tuple[Any, Any, Any]:
    from trainer.checkpointing.checkpoints import Checkpoints
    from trainer.checkpointing.progress import Progress

    kept = Checkpoints(folder, model, optimizer, 2)
    return lambda: kept.save(Progress()), lambda: kept.is_writing, kept.wait


def _tensorflow(folder: Path, model: Any, optimizer: Any) -> tuple[Any, Any, Any]:
    """`tf.train.Checkpoint` of the same variables; 2 are kept, as of ours."""
    import tensorflow as tf

    checkpoint = tf.train.Checkpoint(model=model.variables, optimizer=optimizer.variables)
    manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=2)
    return manager.save, lambda: False, lambda: None


_WAYS = {"shardmill": _ours, "tf.train": _tensorflow}


if __name__ == "__main__":
    main()
