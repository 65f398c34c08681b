import os
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The tests say what happens on a CPU, also on a machine that has a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

PROGRAMS = Path(__file__).parent / "programs"
sys.path.insert(0, str(PROGRAMS))  # for `import tiny`, and for --model tiny:dense


@pytest.fixture
def run_program():
    """Runs a program beside tiny.py in a new process; what it needs is one, or 2 CPU devices."""

    def run(name, *arguments):
        root = Path(__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        return subprocess.run(
            [sys.executable, str(PROGRAMS / name), *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def options(tmp_path):
    """Options of a run that takes a second or two; keyword arguments change them."""
    from trainer import TrainOptions

    def make(**changes):
        return TrainOptions(
            **{
                "data": tmp_path / "data",
                "run_dir": tmp_path / "run",
                "model": "tiny:dense",
                "image_size": 8,
                "batch_size": 8,
                "epochs": 2,
                "precision": "float32",
                **changes,
            }
        )

    return make
