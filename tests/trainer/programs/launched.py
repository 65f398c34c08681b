"""`shardmill train` in processes of its own, and the processes that it starts in turn."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOST = 175  # the exit code after the loss of another process


class Runs:
    """Starts runs on one set.

    Args:
        data: The set.
        given: Arguments of all runs.
    """

    def __init__(self, data, *given):
        self.data = data
        self.given = ("--image-size", 8, "--batch-size", 24, "--precision", "float32", *given)
        self.processes = []

    def start(self, run, *arguments, **variables):
        """A process, with further arguments and variables of the environment."""
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests/trainer/programs")])
        command = ["train", self.data, "--run-dir", run, *self.given, *arguments]
        process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": paths, **variables},
        )
        self.processes.append(process)
        return process

    def run(self, run, *arguments, **variables):
        return finished(self.start(run, *arguments, **variables))

    def end(self):
        """Kills what is left."""
        for process in self.processes:
            for child in children(process.pid).values():
                os.kill(child, signal.SIGKILL)
            process.kill()
            process.communicate()


def finished(process, code=0):
    """(stdout, stderr) of a process that ends with this code."""
    out, err = process.communicate(timeout=270)
    assert process.returncode == code, (process.returncode, out[-2000:], err[-3000:])
    return out, err


def children(launcher):
    """The process id of every process of a launcher that is alive, by name."""
    pids = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"\nPPid:\t{launcher}\n" in (entry / "status").read_text():
                variables = (entry / "environ").read_bytes().split(b"\0")
                name = next(v for v in variables if v.startswith(b"SHARDMILL_LOCAL_WORKER="))
                pids[name.partition(b"=")[2].decode()] = int(entry.name)
        except (OSError, StopIteration):
            continue
    return pids
