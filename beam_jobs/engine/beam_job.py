"""A listed build on an engine of Beam: any cluster, or worker processes of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import apache_beam as beam

from beam_jobs.build import Build, cancel_tasks
from beam_jobs.engine.clusters import cancelling, describe, failure, has_job_server
from beam_jobs.engine.dataflow import check_job, is_dataflow
from beam_jobs.engine.interrupts import workers_get_interrupts
from beam_jobs.engine.processes import LOST_WORKER
from beam_jobs.engine.runners import choose_mode, choose_runner, is_local, uses_work_queue
from beam_jobs.engine.silence import Silence
from beam_jobs.engine.work_queue import work_queue
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.pipeline import kept_error
from beam_jobs.progress import Follower
from beam_jobs.transform import BuildShardSet
from beam_jobs.workspace import read_json
from shard_format import InputError

# What Beam's local engine raises when a worker process has died.
_LOST_WORKER = "Channel closed prematurely"


def check_engine(options: PreprocessOptions, beam_args: Sequence[str]) -> None:
    """Returns if there is an engine for a job.

    Raises:
        UsageError: Beam does not know a flag or the runner, or the job server does not answer.
    """
    runner, beam_options = choose_runner(beam_args, options.workers)
    if is_dataflow(runner):
        check_job(options, runner, beam_options)


def run_on_beam(
    context: JobContext,
    build: Build,
    beam_args: Sequence[str],
    follower: Follower,
    on_note: Callable[[str], None],
    *,
    remote: bool,
) -> None:
    """Runs all steps behind the listing; see `run.run_build`.

    Args:
        context: The job.
        build: The corpus as it was listed.
        beam_args: Pipeline options for Beam.
        follower: Of the workers' reports.
        on_note: See `run.preprocess`.
        remote: Whether workers wait for an object store, and the user did not say how many.
    """
    options, workspace = context.options, context.workspace
    runner, beam_options = choose_runner(beam_args, options.workers)
    choose_mode(
        beam_options,
        beam_args,
        runs_python=context.record_type.runs_python,
        corpus_bytes=build.listing.bytes,
        remote=remote,
    )
    if not is_local(runner):
        on_note(describe(runner, beam_options))
    silence = Silence(follower, waits_without_limit=has_job_server(beam_options), on_note=on_note)
    pipeline = beam.Pipeline(runner=runner, options=beam_options)
    _ = pipeline | "BuildShardSet" >> BuildShardSet(options, build, context)
    queued = uses_work_queue(runner, beam_options)
    try:
        with work_queue(context.run_id, workspace) if queued else contextlib.nullcontext():
            with workers_get_interrupts():
                result = pipeline.run()
                with cancelling(
                    result,
                    lambda: _is_final(context) or silence.is_too_long(),
                    lambda: cancel_tasks(workspace),
                ):
                    result.wait_until_finish()
    except Exception as error:
        raise (
            silence.error
            or kept_error(context)
            or _lost_worker(error)
            or (error if is_local(runner) else failure(runner, error))
        ) from error


def _is_final(context: JobContext) -> bool:
    """Whether a worker has left an error that another attempt would meet too."""
    note = read_json(context.workspace.error(context.run_id))
    return note is not None and note["final"]


def _lost_worker(error: Exception) -> InputError | None:
    """The error if a worker process is gone."""
    if _LOST_WORKER not in str(error):
        return None
    return InputError(LOST_WORKER)
