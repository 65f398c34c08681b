"""SIGKILL of `shardmill train`: `python -m benchmarks.training_kills [--kills 50]`.

That many times, by turns in each of the ways below, and of each by turns with checkpoints on this
machine and in a bucket of an S3 server (`make engines`). A kill comes up to 0.2 s after a file of a
checkpoint has appeared, which a seed chooses; checkpoints are at work most of the time. Of several
processes, one or all are killed. Then the same command completes the run, and its weights and
history are compared with those of a run that was not killed, bit by bit; with parameter servers,
whose gradients are some steps old, the number of epochs and the last loss.
"""

from __future__ import annotations

import contextlib
import dataclasses
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
from tests.servers.versitygw import versitygw

_LOST = 175  # exit code where a worker was killed
_CHILD = "SHARDMILL_LOCAL_WORKER"
_OPTIONS = (
    *("--model", "small_cnn", "--image-size", "32", "--batch-size", "64", "--epochs", "4"),
    *("--precision", "float32", "--checkpoint-minutes", "0.000001", "--cache", "off"),
    *("--worker-timeout", "10", "--worker-start-timeout", "60"),
)
_WORKERS = ("--local-workers", "2")
_WAYS: dict[str, tuple[str, ...]] = {
    "default": (),
    # Without --deterministic a run that is begun anew may be cut at another layer.
    "pipeline": ("--strategy", "pipeline", "--stages", "2", "--deterministic"),
    "multi_worker": _WORKERS,
    "parameter_server": (*_WORKERS, "--parameter-servers", "1"),
}
# Files that a kill follows: of a run that has trained nothing, and of these checkpoints.
_CHECKPOINTS = (1, 2, 3, 5, 8)
_PARTS = (".data-00000-of-00001", ".index", ".json")
_FILES = (
    "run.json",
    *(f"ckpt-{n}{part}" for n in _CHECKPOINTS for part in _PARTS),
)
_DELAY = 0.2  # seconds at most
_TOLERANCE = 0.5  # of the last loss with parameter servers
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
    whole = {way: Run(work / f"whole-{way}", work / f"whole-{way}", way) for way in _WAYS}
    for run in whole.values():
        _finished(_started(work, run), 0)
    results: dict[str, Any] = {"kills": []}
    (work / "server").mkdir()
    with versitygw(work / "server") as server:
        os.environ.update(server.environment)
        buckets = work / "server" / "buckets"
        for number in range(arguments.kills):
            turn, index = divmod(number, len(_WAYS))
            way = list(_WAYS)[index]
            run = Run(work / str(number), work / str(number), way)
            if turn % 2:
                place = f"{server.bucket}/{number}"
                run = Run(place, buckets / place.removeprefix("s3://"), way)
            results["kills"].append(_kill(work, run, whole[way], random.Random(number)))
            print(results["kills"][-1], flush=True)
    write("training_kills", results)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run.

    Attributes:
        place: The value of --run-dir.
        files: Where its files are.
        way: One of `_WAYS`.
    """

    place: Path | str
    files: Path
    way: str


def _kill(work: Path, run: Run, whole: Run, chosen: random.Random) -> dict[str, Any]:
    """Kills a run, completes it, and compares it with one that was not killed.

    Raises:
        SystemExit: It is another.
    """
    single = "--local-workers" not in _WAYS[run.way]
    victims = ("all",) if single else ("all", "worker 0", "worker 1")
    victim, file, delay = chosen.choice(victims), chosen.choice(_FILES), chosen.random() * _DELAY
    kill = {
        "way": run.way,
        "checkpoints_at": "URL" if isinstance(run.place, str) else "local",
        "victim": victim,
        "after": file,
        **_killed(work, run, victim, file, delay),
    }
    begun = time.monotonic()
    _finished(_started(work, run), 0)
    kill["seconds"] = round(time.monotonic() - begun, 1)
    kill["equal"] = _equal(whole, run)
    if not kill["equal"]:
        raise SystemExit(f"The runs differ: {run.files} and {whole.files}, {kill}.")
    shutil.rmtree(run.files)
    return kill


def _shardmill(*arguments: object) -> None:
    command = [sys.executable, "-m", "cli.main", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


def _started(work: Path, run: Run) -> subprocess.Popen[str]:
    command = ["train", work / "set", "--run-dir", run.place, *_OPTIONS, *_WAYS[run.way]]
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


def _killed(work: Path, run: Run, victim: str, file: str, delay: float) -> dict[str, Any]:
    """Kills a run when a file of it has appeared, and says what was there of the run."""
    process = _started(work, run)
    paths = (run.files / file, run.files / "checkpoints" / file)
    while process.poll() is None and not any(path.exists() for path in paths):
        time.sleep(0.002)
    time.sleep(delay)
    for number in _victims(process.pid, victim):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    # 0: it was at its end before. 175: the launcher and the other worker noticed.
    code = _finished(process, 0, -signal.SIGKILL, _LOST)
    while _others(run):  # workers whose launcher was killed notice too
        time.sleep(0.1)
    folder = run.files / "checkpoints"
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


def _others(run: Run) -> bool:
    """Whether a process of a run is left."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(run.place) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def _equal(one: Run, other: Run) -> bool:
    histories = [json.loads((run.files / "history.json").read_text()) for run in (one, other)]
    if one.way == "parameter_server":
        losses = [history[-1]["loss"] for history in histories]
        return len(histories[0]) == len(histories[1]) and abs(losses[0] - losses[1]) <= _TOLERANCE
    models = [keras.models.load_model(run.files / "model.keras") for run in (one, other)]
    for epoch in (epoch for history in histories for epoch in history):
        for name in _TIMED:
            del epoch[name]
    weights = [model.get_weights() for model in models]
    return histories[0] == histories[1] and all(map(np.array_equal, *weights))


if __name__ == "__main__":
    main()
