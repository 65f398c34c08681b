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
from typing import NamedTuple

from beam_jobs.engine.logs import quiet_beam, runs_here
from beam_jobs.options import OPTIONS, PreprocessOptions
from shard_format import ShardmillError


class _Kind(NamedTuple):
    record_type: str
    help: str


KINDS = {
    "images": _Kind("image", "photographs in folders, archives or tables"),
    "text": _Kind("text", "documents in files of any format"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one job; the exit code of shardmill."""
    known, beam_args = _parser().parse_known_args(argv)
    values = vars(known)
    kind = KINDS[values.pop("kind")]
    if runs_here(beam_args):
        quiet_beam()
    try:
        from beam_jobs.run import (
            check_kept,
            run_preprocess,
        )  # loads Beam, which --help does not need

        options = OPTIONS[kind.record_type](**{**values, "sources": tuple(values["sources"])})
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
    for kind, what in KINDS.items():
        _add_job(
            kinds.add_parser(
                kind,
                help=what.help,
                allow_abbrev=False,
                formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            ),
            OPTIONS[what.record_type],
        )
    return parser


def _add_job(parser: argparse.ArgumentParser, options: type[PreprocessOptions]) -> None:
    """Gives a parser a flag for every option."""
    parser.add_argument("sources", nargs="+", metavar="SRC")
    parser.add_argument("--out", required=True, metavar="DIR")
    for field in dataclasses.fields(options):
        if "help" not in field.metadata:
            continue
        flag = f"--{field.name.replace('_', '-')}"
        if field.metadata["type"] is bool:
            parser.add_argument(flag, action="store_true", help=field.metadata["help"])
            continue
        parser.add_argument(
            flag,
            default=field.default,
            type=field.metadata["type"],
            choices=field.metadata["choices"] or None,
            metavar=field.metadata["metavar"],
            help=field.metadata["help"],
        )


if __name__ == "__main__":
    sys.exit(main())
