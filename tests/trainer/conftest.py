import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def run_program():
    """Runs a program next to tiny.py in a new process; what it needs is one, or 2 CPU devices."""

    def run(name, *arguments):
        root = Path(__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        return subprocess.run(
            [sys.executable, str(PROGRAMS / name), *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )

    return run


@pytest.fixture
def run_reports(run_program, tmp_path):
    """Trains with each of several options, in one process of a program; reports and weights."""

    def run(program, options, *arguments):
        done = run_program(program, *arguments, tmp_path, *map(json.dumps, options))
        assert done.returncode == 0, done.stderr[-3000:]
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        for number, report in enumerate(reports):
            if isinstance(report, dict):
                directory = options[number].get("run_dir", tmp_path / str(number))
                report["weights"] = list(np.load(f"{directory}/weights.npz").values())
        return reports

    return run


@pytest.fixture(autouse=True)
def quick(unoptimized_graphs: None, without_figures: None) -> None:
    """Every test here is."""
