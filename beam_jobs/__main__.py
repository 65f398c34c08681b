"""Runs a job the Beam way: `python -m beam_jobs images|text SRC... --out DIR [BEAM OPTIONS]`.

For example, on a Flink cluster whose workers mount /data:

    python -m beam_jobs images /data/photos --out /data/photos-set \
        --runner=FlinkRunner --flink_master=flink:8081 --environment_type=LOOPBACK
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Any

from beam_jobs.engine.logs import quiet_beam, runs_here
from beam_jobs.options import OPTIONS
from shard_format import ShardmillError
from shard_format.extras import naming_extras
from shard_format.options import declared, default_of, flag_of

JOBS = {options.COMMAND: options for options in OPTIONS.values()}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one job; the exit code of shardmill."""
    known, beam_args = _parser().parse_known_args(argv)
    values = vars(known)
    job = JOBS[values.pop("job")]
    if runs_here(beam_args):
        quiet_beam()
    try:
        with naming_extras():
            from beam_jobs.run import check_kept, preprocess  # loads Beam: not for --help

        report = preprocess(job(**values), beam_args)
        print(json.dumps(report.summary()))
        check_kept(report)
    except ShardmillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m beam_jobs",
        description="Builds a shard set with Apache Beam. Flags that are not listed go to Beam.",
        allow_abbrev=False,  # an abbreviation might be meant for Beam
    )
    jobs = parser.add_subparsers(dest="job", required=True)
    for name, options in JOBS.items():
        job = jobs.add_parser(name, help=options.ABOUT.partition("\n")[0], allow_abbrev=False)
        job.add_argument("sources", nargs="+", metavar="SRC")
        job.add_argument("--out", required=True, metavar="DIR", help="The new shard set.")
        for field in declared(options):
            _add_flag(job, field)
    return parser


def _add_flag(parser: argparse.ArgumentParser, field: dataclasses.Field[Any]) -> None:
    metadata, shown = field.metadata, default_of(field)
    text = f"{metadata['help']} [default: {shown}]" if shown else metadata["help"]
    text = text.replace("%", "%%")  # which argparse would format
    if metadata["type"] is bool:
        parser.add_argument(flag_of(field.name), action="store_true", help=text)
        return
    parser.add_argument(
        flag_of(field.name),
        default=field.default,
        type=metadata["type"],
        choices=list(metadata["choices"]) or None,
        metavar=None if metadata["choices"] else metadata["metavar"] or "NAME",
        help=text,
    )


if __name__ == "__main__":
    sys.exit(main())
