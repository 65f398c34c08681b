"""Runs a job the Beam way: `python -m beam_jobs images SRC... --out DIR [BEAM OPTIONS]`.

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

from beam_jobs.logs import quiet_beam, runs_here
from beam_jobs.options import PreprocessOptions
from shard_format import ShardmillError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one job; the exit code of shardmill."""
    known, beam_args = _parser().parse_known_args(argv)
    values = vars(known)
    values.pop("kind")
    if runs_here(beam_args):
        quiet_beam()
    try:
        from beam_jobs.run import (
            check_kept,
            run_preprocess,
        )  # loads Beam, which --help does not need

        options = PreprocessOptions(**{**values, "sources": tuple(values["sources"])})
        report = run_preprocess(options, beam_args)
        print(json.dumps(report.manifest.summary()))
        check_kept(report)
    except ShardmillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m beam_jobs",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Builds a shard set with Apache Beam. Flags that are not listed go to Beam.",
        allow_abbrev=False,  # an abbreviation might be meant for Beam
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    images = kinds.add_parser(
        "images",
        help="photographs in folders, archives or tables",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    images.add_argument("sources", nargs="+", metavar="SRC")
    images.add_argument("--out", required=True, metavar="DIR")
    for field in dataclasses.fields(PreprocessOptions):
        if "help" not in field.metadata:
            continue
        flag = f"--{field.name.replace('_', '-')}"
        if field.metadata["type"] is bool:
            images.add_argument(flag, action="store_true", help=field.metadata["help"])
            continue
        images.add_argument(
            flag,
            default=field.default,
            type=field.metadata["type"],
            choices=field.metadata["choices"] or None,
            metavar=field.metadata["metavar"],
            help=field.metadata["help"],
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
