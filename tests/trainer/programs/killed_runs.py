"""Trains on a shard set, again and again, each time in a forked process: killed_runs.py SET.

Each line of stdin is JSON, [RUN_DIR, STRATEGY, EPOCHS, MOMENT]; the answer is a line of JSON with
`code`, as subprocess has it, `seconds` of CPU time, and `began`, the place where it began, or
null. TensorFlow is imported once; nothing of it runs before the fork. MOMENT is one of

    never
    cpu:1.5          it has used so many seconds of CPU time
    train:2:3        at least 3 steps of epoch 2 are done
    validation:2:1   at least 1 step of its validation is done
    recording:4      the values of the 4th checkpoint of this process are written, and no more of it
    naming:4         its checksums too, and it is not yet named the latest
    history:2        the history has epoch 2, the checkpoint not yet

at which the process kills itself, or is killed. Every call into the graph is followed by a
checkpoint: at work while the next ones run where the moment is of `cpu`, and waited for at the
others, so that the place is known.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf
import tiny  # noqa: F401

from trainer import RunStarted, StepsDone, TrainOptions
from trainer.checkpointing import checkpoint_files, run_dir
from trainer.checkpointing.checkpoints import Checkpoints
from trainer.monitoring import records
from trainer.run import train

LOOK_SECONDS = 0.005


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def killed(moment, began):
    """Has this process kill itself at the moment; gives what is to be called with events."""
    kind, *numbers = moment.split(":")

    def on_event(event):
        if isinstance(event, RunStarted):
            os.write(began, json.dumps([event.first_epoch, event.first_step]).encode())
        if isinstance(event, StepsDone) and [event.phase, str(event.epoch)] == [kind, *numbers[:1]]:
            if event.step >= int(numbers[1]):
                die()

    if kind == "cpu":
        return on_event
    save, complete, write = Checkpoints.save, checkpoint_files.complete, checkpoint_files._write
    write_history = run_dir.write_history
    done = 0

    def save_and_wait(self, progress):
        save(self, progress)
        self.wait()

    def complete_unless_recording(*arguments):
        nonlocal done
        done += 1
        if [kind, str(done)] == ["recording", *numbers]:
            die()
        complete(*arguments)

    def write_unless_naming(path, text):
        if [kind, str(done), path.name] == ["naming", *numbers, "checkpoint"]:
            die()
        write(path, text)

    def write_history_and_die(directory, history):
        write_history(directory, history)
        if [kind, str(len(history))] == ["history", *numbers]:
            die()

    Checkpoints.save = save_and_wait
    checkpoint_files.complete = complete_unless_recording
    checkpoint_files._write = write_unless_naming
    run_dir.write_history = write_history_and_die
    return on_event


def run(directory, strategy, epochs, moment, began):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * (1 if strategy == "default" else 2),
    )
    records.Records._draw = lambda *arguments: None  # takes longer than the run
    # As in the other tests: most of the time of these short runs goes into graphs.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    options = TrainOptions(
        data=sys.argv[1],
        run_dir=directory,
        model="tiny:with_norm",
        image_size=8,
        batch_size=8,
        epochs=epochs,
        precision="float32",
        augment="strong",
        strategy=strategy,
        checkpoint_minutes=1e-9,
        deterministic=True,
    )
    train(options, killed(moment, began))


def ended(child, moment):
    """(status, CPU seconds) of the child, which is killed from outside if the moment is one of CPU.

    CPU time, because a machine with other work to do would be at another place after a second.
    """
    kind, _, seconds = moment.partition(":")
    limit = float(seconds) if kind == "cpu" else float("inf")
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return status, usage.ru_utime + usage.ru_stime
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") >= limit:
            os.kill(child, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


for line in sys.stdin:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            run(*json.loads(line), writing)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    status, seconds = ended(child, json.loads(line)[-1])
    with os.fdopen(reading) as pipe:
        answer = {
            "code": os.waitstatus_to_exitcode(status),
            "seconds": seconds,
            "began": json.loads(pipe.read() or "null"),
        }
    print(json.dumps(answer), flush=True)
