"""A worker process of Beam's local engine that dies, also before it has connected."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import psutil
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo
from apache_beam.runners.portability.fn_api_runner.worker_handlers import WorkerHandlerManager
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from beam_jobs.engine.beam_workers import WatchedWorker, lost_worker
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
    next(_workers(psutil.Process(process.pid), connected)).kill()
    printed, _ = process.communicate(timeout=240)
    assert process.returncode == 3 and LOST_WORKER[:60] in " ".join(printed.split()), printed
    assert "Traceback" not in printed
    again = shardmill(*job)
    assert again.returncode == 0 and "root hash" in again.stdout


@pytest.fixture
def handler():
    """The handler of a worker that has just been started; at its end the worker is told so."""
    environment = SubprocessSDKEnvironment(f"{sys.executable} -m {WORKER}").to_runner_api(None)
    workers = WorkerHandlerManager({"python": environment}, ExtendedProvisionInfo())
    yield workers.get_worker_handlers("python", 1)[0]
    workers.close_all()


@pytest.mark.timeout(120)
def test_a_worker_that_has_not_connected_ends_with_the_job(handler):
    assert isinstance(handler, WatchedWorker) and handler.worker_thread.is_alive()


@pytest.mark.timeout(120)
def test_a_question_to_a_worker_that_dies_has_an_error(handler):
    answer = handler.control_conn.push(beam_fn_api_pb2.InstructionRequest())
    next(_workers(psutil.Process(), False)).kill()
    with pytest.raises(RuntimeError) as raised:
        answer.get()
    assert str(lost_worker(raised.value)) == LOST_WORKER


def _workers(launcher, connected):
    """Yields worker processes until the launcher has ended."""
    while launcher.is_running() and launcher.status() != psutil.STATUS_ZOMBIE:
        for one in launcher.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                command = one.cmdline()
                if command[:1] == [sys.executable] and WORKER in command[1:]:
                    if one.net_connections() or not connected:
                        yield one
