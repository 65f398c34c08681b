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
from apache_beam.runners.runner import PipelineRunner

from shard_format import UsageError

_LOCAL = (None, "DirectRunner", "FnApiRunner")


def choose_runner(
    beam_args: Sequence[str], workers: int | None
) -> tuple[PipelineRunner | None, PipelineOptions]:
    """The runner object (None: the one that the options name) and the options for the pipeline.

    Args:
        beam_args: Flags for Beam, as the user gave them.
        workers: Parallel workers of the local engine; None means one per usable core.

    Raises:
        UsageError: Beam does not know a flag.
    """
    try:
        options = PipelineOptions(list(beam_args))
        runner = options.view_as(StandardOptions).runner
    except SystemExit as error:  # argparse inside Beam
        raise _unknown(beam_args) from error
    if runner not in _LOCAL:
        return None, options  # a runner's job server may know more options than are known here
    unknown = _unknown_to_beam(beam_args)
    if unknown:
        raise _unknown(unknown)
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
