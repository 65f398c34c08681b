"""Engines other than the local one: checked before the work begins, named, failures explained.

What belongs to one engine alone is in the tables at the top.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
)
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.portability.job_server import ExternalJobServer
from apache_beam.runners.runner import PipelineRunner, PipelineState

from shard_format import InputError, UsageError

# The flag that limits the workers of an engine.
_WORKERS_FLAGS = {
    "DaskRunner": "--dask_npartitions",
    "DataflowRunner": "--max_num_workers",
    "FlinkRunner": "--parallelism",
}
_REACH_SECONDS = 15  # for a job server in another building, not for one that is being started
_POLL_SECONDS = 1.0
_EMBEDDED = "embed"  # a job server inside the launcher

# What Beam puts before the message of a job server.
_OF_PIPELINE = re.compile(r"^Pipeline \S+ failed in state \w+: (?=\S)")
# A worker's exception that is no error of the input, which its traceback explains; and those that
# no engine raises for what a user can change.
_TRACEBACK = "Traceback (most recent call last)"
_BUGS = (AssertionError, AttributeError, LookupError, TypeError)


def name_of(runner: PipelineRunner) -> str:
    """As a user gives it to --runner."""
    return type(runner).__name__


def workers_flag(runner: PipelineRunner) -> str:
    """What to do instead of giving --workers, which is for the local engine."""
    flag = _WORKERS_FLAGS.get(name_of(runner))
    return f"Pass -- {flag}=N" if flag else "Give the engine its workers when it is started"


def options_of_job_server(options: PipelineOptions) -> set[str]:
    """The options that the job server has besides those of Beam's Python SDK.

    Raises:
        UsageError: There is no job server at --job_endpoint.
    """
    if not has_job_server(options):
        return set()
    endpoint = options.view_as(PortableOptions).job_endpoint
    host, _, port = endpoint.rpartition(":")
    try:
        # First without grpc, which does not say why it cannot connect, and tries until the end.
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS):
            service = ExternalJobServer(endpoint, _REACH_SECONDS).start()
        request = beam_job_api_pb2.DescribePipelineOptionsRequest()
        answer = service.DescribePipelineOptions(request, timeout=_REACH_SECONDS)
    except Exception as error:  # grpc's are of several classes, and grpc is no dependency of ours
        why = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        raise UsageError(
            f"No Beam job server answers at {endpoint}{why}. Start it, or correct --job_endpoint; "
            "its form is HOST:PORT."
        ) from error
    return {option.name for option in answer.options}


def has_job_server(options: PipelineOptions) -> bool:
    """Whether a job server, and not Beam in this process, runs the job."""
    return options.view_as(PortableOptions).job_endpoint not in (None, "", _EMBEDDED)


def describe(runner: PipelineRunner, options: PipelineOptions) -> str:
    """Which engine runs the job, and where to watch it."""
    name, endpoint = name_of(runner), options.view_as(PortableOptions).job_endpoint
    where = f", job server {endpoint}" if endpoint else ""
    watch = _watch(name, options)
    return f"runs on {name}{where}. {watch}Ctrl-C cancels the job."


def _watch(name: str, options: PipelineOptions) -> str:
    if name == "FlinkRunner":
        master = options.view_as(FlinkRunnerOptions).flink_master.removeprefix("http://")
        page = "Flink's web page" if master.startswith("[") else f"http://{master}"
        return f"Tasks and counters: {page}. "
    if name == "DataflowRunner":
        project = options.view_as(GoogleCloudOptions).project
        page = "https://console.cloud.google.com/dataflow/jobs"
        return f"Steps and counters: {page}?project={project}. "
    return ""


@contextlib.contextmanager
def cancelling(
    result: Any, must_end: Callable[[], bool], cancel_tasks: Callable[[], None]
) -> Iterator[None]:
    """Within this context, a job is cancelled by Ctrl-C, and once it cannot succeed any more.

    Engines run what has failed again, some for minutes; that helps against a lost machine, not
    against a corpus that was refused.

    Args:
        result: Result of `pipeline.run()`.
        must_end: Asked every second.
        cancel_tasks: Has the tasks end, also where the engine does not.
    """
    if PipelineState.is_terminal(result.state):
        yield
        return
    over = threading.Event()

    def cancel() -> None:
        cancel_tasks()
        with contextlib.suppress(Exception):  # it has just ended, or nobody answers
            result.cancel()

    def watch() -> None:
        while not over.wait(_POLL_SECONDS):
            if must_end():
                cancel()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except KeyboardInterrupt:
        cancel()
        raise
    finally:
        over.set()
        watcher.join()


def failure(runner: PipelineRunner, error: Exception) -> Exception:
    """What to raise for a job that failed for no reason that a worker has noted."""
    text = str(error).strip() or type(error).__name__
    if _TRACEBACK in text or isinstance(error, _BUGS):
        return error
    said = _OF_PIPELINE.sub("", text).splitlines()[0].removesuffix(", Error:").rstrip(". ")
    return InputError(
        f"The job failed on {name_of(runner)}: {said}. What is finished was kept. Find the cause "
        "in the logs of the engine, and run the same command again; it resumes."
    )
