"""Trains in RUN_DIR: killed_run.py RUN_DIR [LAST]; kills itself when epoch LAST is done."""

import os
import signal
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tiny

from trainer.events import EpochDone, RunStarted
from trainer.options import TrainOptions
from trainer.run import train_on

last = int(sys.argv[2]) if len(sys.argv) > 2 else None


def on_event(event):
    if isinstance(event, RunStarted):
        print(f"first epoch {event.first_epoch}", flush=True)
    if isinstance(event, EpochDone) and event.epoch == last:
        os.kill(os.getpid(), signal.SIGKILL)


options = TrainOptions(
    data="none", run_dir=sys.argv[1], model="tiny:with_norm", image_size=8, batch_size=8, epochs=3
)
train_on(tiny.data(), options, on_event)
