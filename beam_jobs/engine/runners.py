"""Which engine of Beam runs a pipeline; `local` is the engine that needs no Beam.

No runner, or DirectRunner, means Beam's local engine, pinned: FnApiRunner. "DirectRunner" itself
has meant Prism, a binary that is downloaded, since Beam 2.68, and falls back to another engine
depending on the transforms used. Any other runner is taken as given.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from apache_beam.options.pipeline_options import (
    DebugOptions,
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from beam_jobs.engine.clusters import options_of_job_server, workers_flag
from beam_jobs.engine.logs import LOCAL_RUNNERS
from shard_format import UsageError

# Else Beam stages a list of the launcher's packages, with the path of its interpreter and whatever
# is in the URLs that packages were installed from.
_NO_PACKAGE_LIST = "disable_logging_submission_environment"
# Runners that Beam has and does not know by name.
_MODULES = {"DaskRunner": "apache_beam.runners.dask.dask_runner.DaskRunner"}


def choose_runner(
    beam_args: Sequence[str], workers: int | None
) -> tuple[PipelineRunner, PipelineOptions]:
    """Chooses the runner, and parses its options, to which one experiment is added for a cluster.

    Args:
        beam_args: The user's flags for Beam.
        workers: Parallel workers of Beam's local engine; None means as many as Beam starts.

    Raises:
        UsageError: Beam does not know a flag or the runner, or the job server does not answer.
    """
    try:
        options = PipelineOptions(list(beam_args))
        name = options.view_as(StandardOptions).runner
        runner = FnApiRunner() if name in LOCAL_RUNNERS else _create(name)
        unknown = _unknown_to_beam(beam_args)
    except SystemExit as error:  # argparse inside Beam
        raise _unknown(beam_args) from error
    if name not in LOCAL_RUNNERS:
        further = options_of_job_server(options)
        unknown = [flag for flag in unknown if flag.startswith("-") and _bare(flag) not in further]
    if unknown:
        raise _unknown(unknown)
    if name in LOCAL_RUNNERS:
        if workers is not None:  # Beam's own flag wins, since it comes last
            options = PipelineOptions([f"--direct_num_workers={workers}", *beam_args])
        return runner, options
    if workers is not None:
        raise UsageError(f"--workers is for the local engine. {workers_flag(runner)} instead.")
    options.view_as(DebugOptions).add_experiment(_NO_PACKAGE_LIST)
    return runner, options


def is_local(runner: PipelineRunner) -> bool:
    """Whether a runner is Beam's local engine."""
    return isinstance(runner, FnApiRunner)


def _create(name: str) -> PipelineRunner:
    try:
        return create_runner(_MODULES.get(name, name))
    except (ValueError, ImportError, AttributeError) as error:
        raise UsageError(
            f"{name!r} is not a Beam runner ({error}). Correct --runner, or leave it out for the "
            "local engine."
        ) from error


def _bare(flag: str) -> str:
    """Returns the name of an option: "retries" for "--retries=3"."""
    return flag.lstrip("-").partition("=")[0]


def _unknown_to_beam(beam_args: Sequence[str]) -> list[str]:
    """Finds flags that Beam would drop with no more than a log line, such as a mistyped one."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for kind in PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    return parser.parse_known_args(list(beam_args))[1]


def _unknown(flags: Sequence[str]) -> UsageError:
    return UsageError(
        f"Neither shardmill nor Beam has the option {' '.join(flags)}. Correct it; 'shardmill "
        "preprocess images --help' lists those of shardmill, the runner's documentation the others."
    )
