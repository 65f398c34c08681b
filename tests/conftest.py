"""Settings of all tests; what they share is in tests/fixtures."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = [
    "tests.fixtures.any_records",
    "tests.fixtures.command_line",
    "tests.fixtures.corpora",
    "tests.fixtures.damage",
    "tests.fixtures.generations",
    "tests.fixtures.graphs",
    "tests.fixtures.killed_commands",
    "tests.fixtures.memory_storage",
    "tests.fixtures.runs",
    "tests.fixtures.sets",
    "tests.fixtures.url_farm",
    "tests.fixtures.web",
    "tests.fixtures.web_pages",
]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

# Shells start background jobs with SIGINT ignored, and so would be the processes of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The machine is noisy: no test is about time. The seed is fixed so that CI is reproducible.
_property_tests = hypothesis.settings(deadline=None, derandomize=True)
hypothesis.settings.register_profile("proofs", _property_tests, max_examples=100)
hypothesis.settings.register_profile("test", _property_tests, max_examples=25)
hypothesis.settings.load_profile("test")

REPOSITORY = Path(__file__).parents[1]

# Tests are dealt out by the file: the longest first, or one worker is busy with them in the end
# while the others have nothing left.
_LONGEST = (
    "docs/test_commands.py",
    "beam_jobs/test_kill.py",
    "serving/test_reading.py",
    "trainer/test_workers.py",
    "trainer/test_parameter_servers.py",
    "checkpointing/test_kills.py",
    "checkpointing/test_resume.py",
    "docs/test_demo.py",
)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "interop":
        # torchvision loads Triton, which aborts the process where TensorFlow is loaded already:
        # both register the options of an LLVM of their own.
        with contextlib.suppress(ImportError):
            importlib.import_module("triton")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get("/".join(item.path.parts[-2:]), len(order)))


def pytest_collection_finish() -> None:
    gc.set_threshold(50_000, 20, 1_000_000)
    _collect_and_freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        _collect_and_freeze()


def _collect_and_freeze() -> None:
    """Collects garbage; what is left is not looked at again.

    TensorFlow and Beam are millions of objects. A full collection looks at each of them, and
    tracing graphs sets off so many that they took a third of the CPU time. So a file of tests has
    one, at its end.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def samples() -> Path:
    """324 files in 10 class folders; 2 are duplicates, 2 are broken."""
    return REPOSITORY / "samples" / "clothing"


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Larger corpora beside the clone; they are not part of the repository."""
    folder = REPOSITORY.parent / "shared" / "corpora"
    if not folder.is_dir():
        pytest.skip("needs the larger corpora, which are not part of the repository")
    return folder
