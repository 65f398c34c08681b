"""Submits a job that nobody waits for: a template, or with --no_wait_until_finish.

The launcher ends before the job begins, so the job itself lists the corpus, and finishes the set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions

from beam_jobs.engine.dataflow import check_job, is_dataflow
from beam_jobs.engine.logs import runs_here
from beam_jobs.engine.runners import choose_runner
from beam_jobs.options import PreprocessOptions
from beam_jobs.transform import BuildShardSet
from shard_format import UsageError


class Submission(NamedTuple):
    """A job that was handed over.

    Attributes:
        job_id: Id of a job that runs; None for a template, or if the engine gives none.
        template: Where the template is; None for a job that runs.
    """

    job_id: str | None
    template: str | None

    def __str__(self) -> str:
        if self.template:
            return f"wrote the template {self.template}; a job started from it builds the set"
        job = f"job {self.job_id}" if self.job_id else "the job"
        return f"submitted {job}; it builds the set and ends by itself"


def submit(options: PreprocessOptions, beam_args: Sequence[str]) -> Submission:
    """Hands a job over to an engine.

    Raises:
        UsageError: An option is wrong.
        InputError: The corpus or the output folder cannot be used.
    """
    if runs_here(beam_args):
        raise UsageError(
            "The local engine ends with the launcher, so there is nothing to submit to. Add "
            "--runner after '--', or leave out --template_location and --no_wait_until_finish."
        )
    runner, beam_options = choose_runner(beam_args, options.workers)
    if is_dataflow(runner):
        check_job(options, runner, beam_options)
    job = BuildShardSet(options)
    pipeline = beam.Pipeline(runner=runner, options=beam_options)
    _ = pipeline | "BuildShardSet" >> job
    result = pipeline.run()
    template = beam_options.view_as(GoogleCloudOptions).template_location
    has_id = not template and hasattr(result, "job_id")
    return Submission(result.job_id() if has_id else None, template)
