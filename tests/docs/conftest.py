"""A folder in which the commands of documents run, as a person would run them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.fixtures.command_line import run_shardmill


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A folder with the samples in it; `shardmill` is on the PATH of `run`."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "samples").symlink_to(repository / "samples")
    # What README calls a folder of one's own.
    (folder / "photos").symlink_to(repository / "samples" / "clothing")
    (folder / "texts").symlink_to(repository / "samples" / "banking")
    programs = folder / "bin"
    programs.mkdir()
    for name, arguments in (("shardmill", " -m cli.main"), ("python", "")):
        launcher = programs / name
        launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        launcher.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def run(folder: Path, repository: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command in the folder; `shardmill` in this process, which has TensorFlow loaded."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(repository)}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        if command[0] == "shardmill":
            return run_shardmill(folder, *command[1:])
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture(scope="module")
def load_script(repository: Path) -> Callable[[str], ModuleType]:
    """Imports a program that is in no package, by its path in the repository."""

    def load(path: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(Path(path).stem, repository / path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
