"""Submits a job from a flex template, whose parameters are the options of the job.

Dataflow's launcher runs this file with --NAME=VALUE for each parameter, and for its own options:

    --job=images --sources=gs://bkt/photos --out=gs://bkt/set --stratify=true --runner=DataflowRunner
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from beam_jobs.options import OPTIONS, PreprocessOptions
from beam_jobs.submit import submit
from shard_format import ShardmillError, UsageError
from foundation.options import declared

# Options by the name of the job.
JOBS = {options.COMMAND: options for options in OPTIONS.values()}

# Parameters with another name than their option: Dataflow's own --labels are those of the job.
RENAMED = {"labels_table": "labels"}


def parse(parameters: list[str]) -> tuple[PreprocessOptions, list[str]]:
    """The job, and the arguments that are meant for Beam."""
    given, beam_args = dict[str, str](), list[str]()
    job = next((each[6:] for each in parameters if each.startswith("--job=")), "")
    if job not in JOBS:
        raise UsageError(f"Unknown job {job!r}. Choices of the parameter job: {', '.join(JOBS)}.")
    fields = {field.name: field for field in declared(JOBS[job])}
    names = {"job", "sources", "out", *RENAMED, *fields} - set(RENAMED.values())
    for each in parameters:
        name, _, value = each.removeprefix("--").partition("=")
        if name in names:
            given[name] = value
        else:
            beam_args.append(each)
    missing = [name for name in ("sources", "out") if not given.get(name)]
    if missing:
        raise UsageError(f"The parameter {missing[0]} is missing. Give it a gs:// URL.")
    options: dict[str, Any] = {"sources": tuple(given["sources"].split()), "out": given["out"]}
    for name, value in given.items():
        field = fields.get(RENAMED.get(name, name))
        if field is None or not value:
            continue
        kind = field.metadata["type"]
        try:
            options[field.name] = value == "true" if kind is bool else kind(value)
        except ValueError:
            raise UsageError(f"The parameter {name} is {value!r}. Give it a number.") from None
    return JOBS[job](**options), beam_args


def main(parameters: list[str]) -> int:
    """Submits the job; the exit code."""
    logging.basicConfig(level=logging.INFO)  # for the log of the launcher
    try:
        print(submit(*parse(parameters)))
    except ShardmillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
