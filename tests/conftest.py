"""What tests of several packages share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import simplejpeg

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

# The machine is noisy: no test is about time. The seed is fixed so that CI is reproducible.
hypothesis.settings.register_profile("shardmill", deadline=None, derandomize=True)
hypothesis.settings.load_profile("shardmill")

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def samples() -> Path:
    """324 files in 10 class folders; 2 are duplicates, 2 are broken."""
    return REPOSITORY / "samples" / "clothing"


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Larger corpora that may lie beside the repository; they are not part of it."""
    folder = REPOSITORY.parent / "shared" / "corpora"
    if not folder.is_dir():
        pytest.skip("needs the developers' corpora in ../shared/corpora")
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Callable[..., Path]:
    """Makes a corpus of noise pictures in class folders; every one is unlike all others."""

    def make(count: int = 12, classes: int = 3, name: str = "corpus", side: int = 24) -> Path:
        root = tmp_path / name
        generator = np.random.default_rng(7)
        for number in range(count):
            folder = root / f"class{number % classes}"
            folder.mkdir(parents=True, exist_ok=True)
            pixels = generator.integers(0, 256, (side, side + 6, 3), np.uint8)
            (folder / f"{number:03d}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels, 90))
        return root

    return make


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., object]:
    """Runs a preprocessing job in this process; keyword arguments are its options."""
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import run_preprocess

    def run(source: Path, out: str | Path = "set", /, **options: object) -> object:
        target = out if isinstance(out, Path) else tmp_path / out
        defaults: dict[str, object] = {"workers": 1, "resize": "shorter:32", "no_report": True}
        return run_preprocess(
            ImageOptions(sources=(str(source),), out=str(target), **(defaults | options))
        )

    return run


@pytest.fixture
def shardmill() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=REPOSITORY,
            **options,  # type: ignore[call-overload]
        )

    return run
