"""Our loop against Keras `fit`: `python -m benchmarks.training_loop`.

Both train the same model from the same weights on the same batches, which are held in memory, in
one process and in short turns: fit, loop, fit, loop, ... Each turn is as many steps, in as many
calls into the graph. `fit` is compiled with `steps_per_execution`, without XLA, with the accuracy
as its metric, for the loop counts that too. A ratio is of neighbours; the median of all counts.
Results go to benchmarks/results/training_loop.json.
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
_MODELS = ("small_cnn", "text_transformer")
_BATCH, _SIDE, _LENGTH, _VOCABULARY, _CLASSES = 32, 64, 64, 2000, 10
_KEPT_BATCHES = 8
_WARM_UP_CALLS = 2  # of a turn, which are not counted

Turn = Callable[[], float]  # seconds of the steps of one turn


def main() -> None:
    """Takes the turns, prints the ratios, writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training_loop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", type=int, default=20, help="of each")
    parser.add_argument("--steps", type=int, default=40, help="of a turn")
    parser.add_argument("--steps-per-call", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=_BATCH)
    parser.add_argument("--model", choices=_MODELS, action="append", help="default: all")
    parser.add_argument("--precision", default="float32")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "options": {name: value for name, value in vars(arguments).items() if name != "model"},
        "models": {},
    }
    for name in arguments.model or _MODELS:
        fit, loop = _turns(name, arguments)
        for turn in (fit, loop):  # traces the graphs
            turn()
        pairs = [(fit(), loop()) for _ in range(arguments.turns)]
        ratios = sorted(ours / theirs for theirs, ours in pairs)
        found = {
            "fit_ms_per_step": _median_ms([theirs for theirs, _ in pairs], arguments.steps),
            "loop_ms_per_step": _median_ms([ours for _, ours in pairs], arguments.steps),
            "median_ratio": round(statistics.median(ratios), 4),
            "quartiles": [round(each, 4) for each in statistics.quantiles(ratios)],
        }
        results["models"][name] = found
        print(
            f"{name:<18}fit {found['fit_ms_per_step']} ms, loop {found['loop_ms_per_step']} ms a "
            f"step; ratio {found['median_ratio']} (quartiles {found['quartiles']})",
            flush=True,
        )
    file = _HERE / "results" / "training_loop.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _median_ms(seconds: list[float], steps: int) -> float:
    return round(statistics.median(seconds) / steps * 1000, 3)


def _turns(name: str, arguments: argparse.Namespace) -> tuple[Turn, Turn]:
    """(a turn of `fit`, a turn of the loop) of two models with equal weights."""
    import keras

    dataset = _batches(name, arguments.batch_size)
    fitted, learner = _learner(name, arguments), _learner(name, arguments)
    fitted.compile(
        _optimizer(arguments.precision),
        keras.losses.SparseCategoricalCrossentropy(),
        metrics=["accuracy"],
        steps_per_execution=arguments.steps_per_call,
        jit_compile=False,
    )
    return _turn_of_fit(fitted, dataset, arguments), _turn_of_loop(learner, dataset, arguments)


def _turn_of_fit(model: Any, dataset: Any, arguments: argparse.Namespace) -> Turn:
    import keras

    warm_up = _WARM_UP_CALLS * arguments.steps_per_call

    class Clock(keras.callbacks.Callback):
        """The calls alone, without the first ones, in which the new iterator of `fit` starts."""

        seconds = 0.0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self._begin = time.perf_counter()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch >= warm_up:
                self.seconds += time.perf_counter() - self._begin

    def turn() -> float:
        clock = Clock()
        steps = warm_up + arguments.steps
        model.fit(dataset, epochs=1, steps_per_epoch=steps, verbose=0, callbacks=[clock])
        return clock.seconds

    return turn


def _turn_of_loop(model: Any, dataset: Any, arguments: argparse.Namespace) -> Turn:
    from trainer import loop as loops
    from trainer.strategies import STRATEGIES

    # As many steps in each call as `fit` takes, from the first one on.
    loops.CALL_SECONDS, loops.MAX_STEPS_PER_CALL = 1e9, arguments.steps_per_call
    optimizer = _optimizer(arguments.precision)
    optimizer.build(model.trainable_variables)
    loop = loops.Loop(
        STRATEGIES["default"](), model, optimizer, loops.StepOptions(arguments.batch_size)
    )
    batches = iter(dataset)

    def turn() -> float:
        # The first calls of a phase are shorter; they are of no turn.
        clock = {"done": 0, "seconds": 0.0}
        warm_up = _WARM_UP_CALLS * arguments.steps_per_call

        def on_steps(step: int, totals: Any) -> None:
            if step <= warm_up:
                clock["done"], clock["seconds"] = step, totals.seconds

        totals = loop.train(batches, warm_up + arguments.steps, on_steps)
        steps = warm_up + arguments.steps - clock["done"]
        return (totals.seconds - clock["seconds"]) * arguments.steps / steps

    return turn


def _learner(name: str, arguments: argparse.Namespace) -> Any:
    import keras

    from trainer.models import MODELS, build_model
    from trainer.models.shapes import TokenShape
    from trainer.precision import dtype_policy

    keras.utils.set_random_seed(0)
    shape = (_SIDE, _SIDE, 3) if name == "small_cnn" else TokenShape(_LENGTH, _VOCABULARY, 0)
    with dtype_policy(arguments.precision):
        return build_model(name, MODELS, shape, _CLASSES)


def _optimizer(precision: str) -> Any:
    from trainer.optimization.optimizers import adamw, with_loss_scale

    optimizer = adamw(1e-3, 0.05)
    return with_loss_scale(optimizer) if precision == "mixed_float16" else optimizer


def _batches(name: str, batch_size: int) -> Any:
    """Endless batches of noise from memory: no input to wait for."""
    import numpy as np
    import tensorflow as tf

    generator = np.random.default_rng(0)
    count = _KEPT_BATCHES * batch_size
    labels = generator.integers(0, _CLASSES, count)
    if name == "small_cnn":
        inputs = generator.integers(0, 256, (count, _SIDE, _SIDE, 3)).astype(np.float32)
    else:
        inputs = generator.integers(1, _VOCABULARY, (count, _LENGTH))
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels))
    return dataset.batch(batch_size, drop_remainder=True).cache().repeat().prefetch(2)


if __name__ == "__main__":
    main()
