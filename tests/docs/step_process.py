"""A process that runs steps in a folder, one after the other, with the packages of another tree.

A step is the arguments of `shardmill`, or "python FILE" with a program of tests/docs/toys that
asserts. Starting TensorFlow is most of the cost of a step, so that one process runs all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.docs.tree_edits import TOYS
from tests.fixtures.command_line import REPOSITORY, Completed, run_here, run_shardmill


@contextlib.contextmanager
def step_process(tree: Path, folder: Path) -> Iterator[Callable[[str], Completed]]:
    """Starts the process; what is yielded runs a step in it.

    Args:
        tree: Has the packages.
        folder: The working directory of the steps.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, REPOSITORY)))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(step: str) -> Completed:
        process.stdin.write(f"{step}\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, f"the process ended with {process.wait()} in {step}"
        return subprocess.CompletedProcess(step, *json.loads(answer))

    with process:
        yield run
        process.stdin.close()


def main() -> None:
    """Reads a step per line, and writes [exit code, stdout, stderr] per line."""
    folder = Path.cwd()
    for line in sys.stdin:
        program, *arguments = line.split()
        if program == "python":
            path = str(TOYS / arguments[0])
            done = run_here(lambda path=path: runpy.run_path(path), folder, [path])
        else:
            done = run_shardmill(folder, program, *arguments)
        print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)


if __name__ == "__main__":
    main()
