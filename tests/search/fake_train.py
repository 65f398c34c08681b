"""Stands in for `shardmill train`: writes the history of a run, as fast as it is asked to.

Options decide what happens: --learning-rate the values, --weight-decay the seconds of an epoch,
--optimizer whether it fails. A run is continued at its last epoch, like a real one.
"""

import json
import os
import signal
import sys
import time

given = dict(text.removeprefix("--").split("=", 1) for text in sys.argv[2:] if "=" in text)
run = given["run-dir"]
rate, seconds = float(given.get("learning-rate", 0)), float(given.get("weight-decay", 0))


def stop(number, frame):
    raise SystemExit(128 + number)


signal.signal(signal.SIGTERM, stop)
os.makedirs(run, exist_ok=True)
with open(f"{run}/starts", "a") as starts:
    starts.write(f"{os.getpid()} {sorted(os.sched_getaffinity(0))}\n")
if given.get("optimizer") == "lion":
    sys.exit("error: --optimizer lion does not work here")
if given.get("optimizer") == "lamb":
    os.kill(os.getpid(), signal.SIGKILL)
try:
    with open(f"{run}/history.json") as file:
        history = json.load(file)
except FileNotFoundError:
    history = []
for epoch in range(len(history) + 1, int(given["epochs"]) + 1):
    time.sleep(seconds)
    if rate > 0.5 and epoch == 2:
        print("error: The loss is nan at step 1 of 4 in the train of epoch 2.", file=sys.stderr)
        sys.exit(3)
    value = rate + 1 / epoch
    history.append(
        {
            "epoch": epoch,
            "loss": value,
            "accuracy": 0.5,
            "val_loss": value,
            "val_accuracy": 1 - value / 10,
            "learning_rate": rate,
            "loss_scale": None,
            "examples_per_second": 1.0,
        }
    )
    with open(f"{run}/history.tmp", "w") as file:
        json.dump(history, file)
    os.replace(f"{run}/history.tmp", f"{run}/history.json")
