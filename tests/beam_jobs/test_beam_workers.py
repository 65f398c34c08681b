"""A worker process of Beam's local engine that dies, also before it has connected."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import psutil
import pytest

from beam_jobs.engine.processes import LOST_WORKER

WORKER = "apache_beam.runners.worker.sdk_worker_main"


@pytest.mark.parametrize(
    "connected", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["starts", "works"]
)
def test_a_killed_worker_ends_the_job_with_a_word(
    repository, samples, tmp_path, shardmill, connected
):
    job = ["preprocess", "images", samples, "--out", tmp_path / "set", "--no-report"]
    beam = ["--", "--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *map(str, job), *beam],
        cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    next(_workers(process, connected)).kill()
    printed, _ = process.communicate(timeout=240)
    assert process.returncode == 3 and LOST_WORKER[:60] in " ".join(printed.split()), printed
    assert "Traceback" not in printed
    again = shardmill(*job)
    assert again.returncode == 0 and "root hash" in again.stdout


def _workers(launcher, connected):
    """Yields worker processes until the launcher has ended."""
    while launcher.poll() is None:
        for one in psutil.Process(launcher.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                command = one.cmdline()
                if command[:1] == [sys.executable] and WORKER in command[1:]:
                    if one.net_connections() or not connected:
                        yield one
