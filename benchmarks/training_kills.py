"""SIGKILL of `shardmill train`: `python -m benchmarks.training_kills [--kills 50]`.

At that many seeded moments over the whole span of a run: one process, and every second time two
workers, of which one or all are killed. Then the same command completes the run, and its weights
and history are compared with those of a run that was not killed, bit by bit. Checkpoints are at
work most of the time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import psutil

from benchmarks.measure import HERE, parser, write

_LOST = 175  # exit code where a worker was killed
_CHILD = "SHARDMILL_LOCAL_WORKER"
_OPTIONS = (
    *("--model", "small_cnn", "--image-size", "32", "--batch-size", "64", "--epochs", "4"),
    *("--precision", "float32", "--checkpoint-minutes", "0.000001", "--cache", "off"),
    *("--worker-timeout", "10"),
)
_TIMED = ("examples_per_second", "input_wait", "wall_seconds", "cpu_seconds")


def main() -> None:
    """Kills, prints a line for each, writes the results."""
    options = parser("training_kills", __doc__, turns=False)
    options.add_argument("--kills", type=int, default=50)
    arguments = options.parse_args()
    work = arguments.work / "training"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    corpus = HERE.parent / "samples" / "clothing"
    _shardmill("preprocess", "images", corpus, "--out", work / "set", "--resize", "shorter:32")
    whole = {workers: work / f"whole-{workers}" for workers in (1, 2)}
    spans = {workers: _uninterrupted(work, run, workers) for workers, run in whole.items()}
    results: dict[str, Any] = {
        "seconds_of_a_run": {str(workers): round(span, 1) for workers, span in spans.items()},
        "kills": [],
    }
    for number in range(arguments.kills):
        draw = random.Random(number)
        workers = 1 + number % 2
        moment = (number + draw.random()) / arguments.kills * spans[workers]
        victim = "all" if workers == 1 else draw.choice(("all", "worker 0", "worker 1"))
        run = work / str(number)
        kill = {"workers": workers, "victim": victim, "moment": round(moment, 2)}
        kill |= _killed(work, run, workers, victim, moment)
        begun = time.monotonic()
        _finished(_started(work, run, workers), 0)
        kill |= {
            "seconds": round(time.monotonic() - begun, 1),
            "equal": _equal(whole[workers], run),
        }
        results["kills"].append(kill)
        print(kill, flush=True)
        if not kill["equal"]:
            raise SystemExit(f"The weights differ; the runs are {run} and {whole[workers]}.")
        shutil.rmtree(run)
    write("training_kills", results)


def _shardmill(*arguments: object) -> None:
    command = [sys.executable, "-m", "cli.main", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


def _started(work: Path, run: Path, workers: int) -> subprocess.Popen[str]:
    command = ["train", work / "set", "--run-dir", run, *_OPTIONS]
    if workers > 1:
        command += ["--local-workers", workers]
    with (work / "log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", *map(str, command)],
            stdout=log,
            stderr=log,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        )


def _finished(process: subprocess.Popen[str], *codes: int) -> int:
    """The exit code, which is one of these."""
    code = process.wait(timeout=600)
    if code not in codes:
        raise SystemExit(f"The run ended with {code}, not {codes}.")
    return code


def _uninterrupted(work: Path, run: Path, workers: int) -> float:
    begun = time.monotonic()
    _finished(_started(work, run, workers), 0)
    return time.monotonic() - begun


def _killed(work: Path, run: Path, workers: int, victim: str, moment: float) -> dict[str, Any]:
    """Kills a run, and says what was there of it."""
    process = _started(work, run, workers)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    for number in _victims(process.pid, victim):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    # 0: it was at its end before. 175: the launcher and the other worker noticed.
    code = _finished(process, 0, -signal.SIGKILL, _LOST)
    while _others(run):  # workers whose launcher was killed notice too
        time.sleep(0.1)
    folder = run / "checkpoints"
    files = [path.name for path in folder.iterdir()] if folder.exists() else []
    whole = {name.partition(".")[0] for name in files if name.endswith(".json")}
    begun = {name.partition(".")[0] for name in files if name.startswith("ckpt-")}
    return {"code": code, "checkpoints": len(whole), "unfinished": len(begun - whole)}


def _victims(launcher: int, victim: str) -> list[int]:
    """Process ids: of the launcher with all workers, or of one worker if it has started."""
    try:
        children = psutil.Process(launcher).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    if victim == "all":
        return [launcher, *(child.pid for child in children)]
    pids = []
    for child in children:
        with contextlib.suppress(psutil.Error):
            if child.environ().get(_CHILD) == victim.replace(" ", "-"):
                pids.append(child.pid)
    return pids or [launcher]


def _others(run: Path) -> bool:
    """Whether a process of a run is left."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(run) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def _equal(one: Path, other: Path) -> bool:
    weights = [keras.models.load_model(run / "model.keras").get_weights() for run in (one, other)]
    histories = [json.loads((run / "history.json").read_text()) for run in (one, other)]
    for epoch in (epoch for history in histories for epoch in history):
        for name in _TIMED:
            del epoch[name]
    return histories[0] == histories[1] and all(map(np.array_equal, *weights))


if __name__ == "__main__":
    main()
