"""Which engine runs a pipeline.

No runner, or DirectRunner, means the pinned local engine: Beam's FnApiRunner. "DirectRunner" itself
has meant Prism, a binary that is downloaded, since Beam 2.68, and falls back to another engine
depending on the transforms used. Any other runner is taken as given.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from beam_jobs.logs import LOCAL_RUNNERS
from shard_format import UsageError


def choose_runner(
    beam_args: Sequence[str], workers: int | None
) -> tuple[PipelineRunner, PipelineOptions]:
    """The runner and the options for the pipeline.

    Args:
        beam_args: Flags for Beam, as the user gave them.
        workers: Parallel workers of the local engine; None means one per usable core.

    Raises:
        UsageError: Beam does not know a flag or the runner.
    """
    try:
        options = PipelineOptions(list(beam_args))
        name = options.view_as(StandardOptions).runner
        # A cluster's job server may know more options than are known here.
        unknown = _unknown_to_beam(beam_args) if name in LOCAL_RUNNERS else []
    except SystemExit as error:  # argparse inside Beam
        raise _unknown(beam_args) from error
    if unknown:
        raise _unknown(unknown)
    if name not in LOCAL_RUNNERS:
        try:
            return create_runner(name), options
        except (ValueError, ImportError, AttributeError) as error:
            raise UsageError(
                f"--runner must name a Beam runner, got {name!r} ({error}). Leave it out for the "
                "local engine."
            ) from error
    direct = options.view_as(DirectOptions)
    given = [argument.partition("=")[0] for argument in beam_args]
    if "--direct_num_workers" not in given:
        direct.direct_num_workers = workers or usable_cores()
    if "--direct_running_mode" not in given:
        # Image kernels release the GIL, so threads share one interpreter and its memory. Measured
        # with JPEG decode, resize, encode on 2 cores: 1.24 times the rate of multi_processing.
        direct.direct_running_mode = (
            "multi_threading" if direct.direct_num_workers > 1 else "in_memory"
        )
    return FnApiRunner(), options


def deals_here(runner: PipelineRunner, options: PipelineOptions) -> bool:
    """Whether workers are threads of this process, each bundle of which runs exactly once."""
    direct = options.view_as(DirectOptions)
    return (
        isinstance(runner, FnApiRunner)
        and direct.direct_running_mode in ("in_memory", "multi_threading")
        and not direct.direct_runner_bundle_repeat
    )


def _unknown_to_beam(beam_args: Sequence[str]) -> list[str]:
    """Beam drops what it does not know with a log line; a mistyped flag must not vanish so."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for kind in PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    return parser.parse_known_args(list(beam_args))[1]


def _unknown(flags: Sequence[str]) -> UsageError:
    return UsageError(
        f"every flag must be shardmill's or Beam's, got {' '.join(flags)}. Correct it; "
        "'shardmill preprocess images --help' lists ours, the runner's documentation the others."
    )


def usable_cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
