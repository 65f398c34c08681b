"""Benchmarks stay runnable: every module can be imported, and every entry point shows its help."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

# Packages of the baselines, which have environments of their own.
_BASELINES = (
    *("array_record", "datasets", "datatrove", "grain", "litdata", "nvidia", "spdl", "streaming"),
    *("dlio_benchmark", "img2dataset", "torch", "torchvision", "webdataset"),
)

# In one process, so that TensorFlow and Beam are loaded once.
_PROGRAM = f"""
import importlib, runpy, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {_BASELINES!r}:
            raise
        continue
    module = sys.modules.pop(name)
    if hasattr(module, "argparse") or hasattr(module, "parser"):
        sys.argv = [name, "--help"]
        try:
            runpy.run_module(name, run_name="__main__")
        except SystemExit as error:
            assert not error.code, name
"""


@pytest.mark.proof
def test_every_module_can_be_imported_and_shows_its_help(repository):
    files = sorted((repository / "benchmarks").rglob("*.py"))
    names = [".".join(path.relative_to(repository).with_suffix("").parts) for path in files]
    names = [name for name in names if not name.endswith("__init__")]
    assert len(names) > 30
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *names],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage:") >= 13


def test_results_have_no_path_of_a_machine(repository):
    results = (repository / "benchmarks" / "results").glob("*.json")
    named = re.compile(r"(?<![\w.])/(tmp|home|root|work|Users)/")
    assert [file.name for file in results if named.search(file.read_text())] == []
