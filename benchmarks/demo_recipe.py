"""The recipe of the demo's photographs: `python -m benchmarks.demo_recipe [--seeds 3]`.

Trains on the sample images with the recipe of `shardmill demo` and with the defaults of `shardmill
train` for the same epochs, each with several seeds in turns: the validation split has 78 images, of
which one is 1.3 %. Results go to benchmarks/results/demo_recipe.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from cli.demonstration import photographs

_HERE = Path(__file__).parent
_PROGRAM = """
import json, sys, time
from trainer import TrainOptions, train
options = TrainOptions(**json.loads(sys.argv[1]))
begun, cpu = time.perf_counter(), time.process_time()
final = train(options).final
print(json.dumps([final.val_accuracy, time.perf_counter() - begun, time.process_time() - cpu]))
"""


def main() -> None:
    """Trains, prints accuracies, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo_recipe", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each recipe")
    parser.add_argument("--epochs", type=int, default=40, help="of a run; the demo has 40")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "demo", help="scratch")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    part = photographs(work, arguments.epochs)
    from beam_jobs import preprocess

    preprocess(part.preprocessing)
    plain = {"data": part.training.data, "model": "small_cnn", "epochs": arguments.epochs}
    demo = part.training.as_json()
    recipes = {"defaults": plain, "demo": {name: demo[name] for name in (*plain, *_OWN)}}
    runs: dict[str, list[list[float]]] = {name: [] for name in recipes}
    for seed in range(arguments.seeds):
        for name, options in recipes.items():
            given = {**options, "seed": seed, "run_dir": work / f"{name}-{seed}"}
            output = subprocess.run(
                [sys.executable, "-c", _PROGRAM, json.dumps(given, default=str)],
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
            runs[name].append(json.loads(output.splitlines()[-1]))
            print(name, seed, runs[name][-1], flush=True)
    results = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "command": f"python -m benchmarks.demo_recipe --seeds {arguments.seeds}",
        "options": {name: _without_paths(own) for name, own in recipes.items()},
        "runs": {
            name: [dataclasses.asdict(_Run(*one)) for one in own] for name, own in runs.items()
        },
    }
    for name, own in runs.items():
        accuracy, seconds, cpu = (statistics.mean(column) for column in zip(*own, strict=True))
        print(f"{name:<10} accuracy {accuracy:.1%}, {seconds:.0f} s, {cpu:.0f} CPU s")
    file = _HERE / "results" / "demo_recipe.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _without_paths(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "data"}


@dataclasses.dataclass
class _Run:
    accuracy: float
    seconds: float
    cpu_seconds: float


_OWN = ("augment", "batch_size", "label_smoothing")  # what the demo sets itself

if __name__ == "__main__":
    main()
