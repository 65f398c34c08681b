"""A listed build on an engine of Beam: any cluster, or Beam's local engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apache_beam as beam

from beam_jobs.build import Build, cancel_tasks
from beam_jobs.engine.beam_workers import lost_worker
from beam_jobs.engine.clusters import cancelling, describe, failure, has_job_server
from beam_jobs.engine.dataflow import check_job, is_dataflow
from beam_jobs.engine.runners import choose_runner, is_local
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.progress import Follower
from beam_jobs.stages.list_pieces import PieceTask
from beam_jobs.transform import BuildShardSet, DoListTasks
from beam_jobs.work import kept_error
from beam_jobs.workspace import read_json
from shard_format import InputError

# Beats come every 10 s. An engine may take a minute to see that a machine is lost, and to start
# its tasks elsewhere.
_NOTE_SECONDS = 120.0
# As Flink fails a job that gets no slots for 5 minutes.
_END_SECONDS = 300.0


def check_engine(options: PreprocessOptions, beam_args: Sequence[str]) -> None:
    """Checks that there is an engine for a job.

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
) -> None:
    """Runs all steps behind the listing; see `run.run_build`.

    Args:
        context: The job.
        build: The corpus as it was listed.
        beam_args: Pipeline options for Beam.
        follower: Reader of the workers' reports.
        on_note: See `run.preprocess`.
    """
    transform = "BuildShardSet" >> BuildShardSet(context.options, build, context)
    _run(transform, context, beam_args, follower, on_note)


def list_on_beam(
    context: JobContext,
    tasks: Sequence[PieceTask],
    beam_args: Sequence[str],
    follower: Follower,
    on_note: Callable[[str], None],
) -> None:
    """Does tasks of listing a large corpus; see `list_corpus`.

    Args:
        context: The job.
        tasks: What is to be done.
        beam_args: Pipeline options for Beam.
        follower: Reader of the workers' reports.
        on_note: See `run.preprocess`.
    """
    transform = "DoListTasks" >> DoListTasks(context, tasks)
    _run(transform, context, beam_args, follower, on_note)


def _run(
    transform: beam.PTransform,
    context: JobContext,
    beam_args: Sequence[str],
    follower: Follower,
    on_note: Callable[[str], None],
) -> None:
    workspace = context.workspace
    runner, beam_options = choose_runner(beam_args, context.options.workers)
    if not is_local(runner):
        on_note(describe(runner, beam_options))
    watchdog = WorkerWatchdog(
        follower, waits_without_limit=has_job_server(beam_options), on_note=on_note
    )
    pipeline = beam.Pipeline(runner=runner, options=beam_options)
    _ = pipeline | transform
    try:
        result = pipeline.run()
        with cancelling(
            result,
            lambda: _is_final(context) or watchdog.must_end(),
            lambda: cancel_tasks(workspace),
        ):
            result.wait_until_finish()
    except Exception as error:
        raise (
            watchdog.error
            or kept_error(context)
            or lost_worker(error)
            or (error if is_local(runner) else failure(runner, error))
        ) from error


class WorkerWatchdog:
    """Notes that no worker reports, and says when a job that waits for one must end.

    A job server asks a worker pool for a worker, and then waits for it without a limit. If the pool
    dies in between, the job neither fails nor continues.

    Args:
        follower: Reader of the workers' reports.
        waits_without_limit: Whether the engine might wait for a dead worker forever.
        on_note: Called with what a user may want to look at.

    Attributes:
        error: Reason why the job must end; None while it may go on.
    """

    def __init__(
        self,
        follower: Follower,
        *,
        waits_without_limit: bool,
        on_note: Callable[[str], None],
    ) -> None:
        self._follower = follower
        self._waits_without_limit = waits_without_limit
        self._on_note = on_note
        self._noted = False
        self.error: InputError | None = None

    def must_end(self) -> bool:
        """Whether the job must end; `error` then says why."""
        seconds = self._follower.seconds_silent
        if seconds < _NOTE_SECONDS:
            self._noted = False
        elif not self._noted:
            self._noted = True
            what = "No worker has reported" if self._follower.has_heard else "No worker has started"
            self._on_note(
                f"{what} for {seconds / 60:.0f} minutes. Look at the logs of the engine: it needs "
                "free slots, and a worker pool that runs on every machine."
            )
        # A job that waits in a queue has had no worker yet.
        if self._waits_without_limit and self._follower.has_heard and seconds >= _END_SECONDS:
            self.error = InputError(
                f"No worker has reported for {seconds / 60:.0f} minutes, so the job was cancelled: "
                "a worker pool has probably died while the engine waited for it. What is finished "
                "was kept. See that every worker pool runs, cancel the job in the engine if it is "
                "still there, and run the same command again; it resumes."
            )
        return self.error is not None


def _is_final(context: JobContext) -> bool:
    """Whether a worker has left an error that another attempt would meet too."""
    note = read_json(context.workspace.error(context.run_id))
    return note is not None and note["final"]
