"""Steps with and without `--jit`, in turns: `python -m benchmarks.jit`.

Both train the same model from the same weights in one process, on batches that are held in memory.
A turn of one follows a turn of the other; a ratio is of neighbours, and the median of all counts.
The seconds that compiling took are those of the first call. Results go to
benchmarks/results/jit.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import machine

_HERE = Path(__file__).parent
_MODELS = ("small_cnn", "resnet50", "causal_transformer")
_SIDE, _CLASSES, _LENGTH, _VOCABULARY = 64, 10, 128, 2000
_KEPT_BATCHES = 4


def main() -> None:
    """Takes the turns, prints the ratios, writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.jit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", type=int, default=10, help="of each")
    parser.add_argument("--steps", type=int, default=10, help="of a turn")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=_SIDE)
    parser.add_argument("--model", choices=_MODELS, action="append", help="default: all")
    parser.add_argument("--precision", action="append", help="default: float32 and mixed_bfloat16")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "options": vars(arguments),
        "cases": {},
    }
    for name in arguments.model or _MODELS:
        for precision in arguments.precision or ("float32", "mixed_bfloat16"):
            found = _compared(name, precision, arguments)
            results["cases"][f"{name}, {precision}"] = found
            print(f"{name}, {precision}: {json.dumps(found)}", flush=True)
    file = _HERE / "results" / "jit.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _compared(name: str, precision: str, arguments: argparse.Namespace) -> dict[str, float]:
    turns = [_turn(name, precision, jit, arguments) for jit in (False, True)]
    first = []
    for turn in turns:
        begin = time.perf_counter()
        turn(1)
        first.append(time.perf_counter() - begin)
        turn(4)
    pairs = [tuple(turn(arguments.steps) for turn in turns) for _ in range(arguments.turns)]
    per_step = [statistics.median(pair[index] for pair in pairs) for index in (0, 1)]
    return {
        "plain_ms_per_step": round(per_step[0] / arguments.steps * 1000, 2),
        "jit_ms_per_step": round(per_step[1] / arguments.steps * 1000, 2),
        "median_rate_ratio": round(statistics.median(a / b for a, b in pairs), 3),
        "plain_first_call_seconds": round(first[0], 1),
        "jit_first_call_seconds": round(first[1], 1),
    }


def _turn(
    name: str, precision: str, jit: bool, arguments: argparse.Namespace
) -> Callable[[int], float]:
    import keras

    from trainer.loop import Loop, StepOptions
    from trainer.models import MODELS, build_model
    from trainer.models.shapes import SequenceShape
    from trainer.optimization.optimizers import adamw, with_loss_scale
    from trainer.precision import dtype_policy
    from trainer.strategies import STRATEGIES

    is_text = name == "causal_transformer"
    side = arguments.image_size
    shape = SequenceShape(_LENGTH, _VOCABULARY) if is_text else (side, side, 3)
    keras.utils.set_random_seed(0)
    with dtype_policy(precision):
        model = build_model(name, MODELS, shape, _VOCABULARY if is_text else _CLASSES)
        optimizer = adamw(1e-3, 0.05)
        if precision == "mixed_float16":
            optimizer = with_loss_scale(optimizer)
        optimizer.build(model.trainable_variables)
    loop = Loop(
        STRATEGIES["default"](), model, optimizer, StepOptions(arguments.batch_size, jit=jit)
    )
    batches = iter(_batches(shape, arguments.batch_size))

    def turn(steps: int) -> float:
        return loop.train(batches, steps, lambda step, totals: None).seconds

    return turn


def _batches(shape: Any, batch_size: int) -> Any:
    """Endless batches of noise from memory: no input to wait for."""
    import numpy as np
    import tensorflow as tf

    from trainer.models.shapes import SequenceShape

    generator = np.random.default_rng(0)
    count = _KEPT_BATCHES * batch_size
    if isinstance(shape, SequenceShape):
        tokens = generator.integers(0, _VOCABULARY, (count, _LENGTH + 1))
        ones = np.ones((count, _LENGTH), np.int64)
        inputs: Any = {
            "tokens": tokens[:, :-1],
            "segments": ones,
            "positions": np.tile(np.arange(_LENGTH), (count, 1)),
        }
        values: Any = (inputs, tokens[:, 1:], ones.astype(np.float32))
    else:
        pixels = generator.integers(0, 256, (count, *shape)).astype(np.float32)
        values = (pixels, generator.integers(0, _CLASSES, count))
    dataset = tf.data.Dataset.from_tensor_slices(values)
    return dataset.batch(batch_size, drop_remainder=True).cache().repeat().prefetch(2)


if __name__ == "__main__":
    main()
