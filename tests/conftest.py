"""What tests of several packages share."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


@dataclasses.dataclass(frozen=True)
class Kind:
    """A record type, for tests that hold for every one of them.

    Attributes:
        name: Of the record type.
        suffix: Of a file that is one record.
        make: (count, classes, name) -> class folders of records, no two of them alike.
        defaults: Options of a job.
        damaged: The bytes of a record -> some that are none.
        refused: (stage, reason) of these.
        worse: Other bytes that are none.
        refused_worse: (stage, reason) of these.
        counted: Columns of whole numbers that the manifest summarizes.
    """

    name: str
    suffix: str
    make: Callable[..., Path]
    defaults: dict[str, object]
    damaged: Callable[[bytes], bytes]
    refused: tuple[str, str]
    worse: bytes
    refused_worse: tuple[str, str]
    counted: tuple[str, ...]

    def file(self, name: str) -> str:
        """The name with the suffix."""
        return name + self.suffix

    def options(self, source: Path, out: Path, **options: object) -> Any:
        """A job."""
        from beam_jobs.options import OPTIONS

        values = self.defaults | options
        return OPTIONS[self.name](sources=(str(source),), out=str(out), **values)


_WORDS = "the of and to in is that for it as was with be by on not he his but at".split()


@pytest.fixture(params=["image", "text"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    """Every record type in turn."""
    if request.param == "image":
        return Kind(
            "image",
            ".jpg",
            request.getfixturevalue("pictures"),
            {"resize": "shorter:32"},
            lambda data: data[:-40],
            ("prepare", "truncated"),
            b"",
            ("prepare", "empty-file"),
            ("width", "height", "source_bytes"),
        )

    def documents(count: int = 12, classes: int = 3, name: str = "corpus") -> Path:
        generator = np.random.default_rng(7)
        for number in range(count):
            folder = tmp_path / name / f"class{number % classes}"
            folder.mkdir(parents=True, exist_ok=True)
            words = generator.choice(_WORDS, 500).tolist()
            text = f"Document {number}\n" + " ".join(words)
            (folder / f"{number:03d}.txt").write_text(text)
        return tmp_path / name

    return Kind(
        "text",
        ".txt",
        documents,
        {},
        lambda data: data[:-4] + b"\xff\xfe\xfd",
        ("read", "bad-encoding"),
        b" \n",
        ("filter", "empty"),
        ("chars", "words", "source_bytes"),
    )


@pytest.fixture
def build(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Runs a preprocessing job in this process; keyword arguments are its options.

    It is one on pictures, unless the test is for every `kind`.
    """
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import run_preprocess

    kind = request.getfixturevalue("kind") if "kind" in request.fixturenames else None
    kind = kind if isinstance(kind, Kind) else None  # a test may call something else so

    def run(source: Path, out: str | Path = "set", /, **options: object) -> object:
        target = out if isinstance(out, Path) else tmp_path / out
        values = {"workers": 1, "no_report": True} | options
        if kind is not None:
            return run_preprocess(kind.options(source, target, **values))
        values = {"resize": "shorter:32"} | values
        return run_preprocess(ImageOptions(sources=(str(source),), out=str(target), **values))

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
