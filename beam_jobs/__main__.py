"""Runs a job the Beam way: `python -m beam_jobs images|text SRC... --out DIR [BEAM OPTIONS]`.

For example, on a Flink cluster whose workers mount /data:

    python -m beam_jobs images /data/photos --out /data/photos-set \
        --runner=FlinkRunner --job_endpoint=flink:8099 --parallelism=16 \
        --environment_type=EXTERNAL --environment_config=localhost:50000
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from beam_jobs.engine.interrupts import END_SECONDS, ends_within
from beam_jobs.engine.logs import beam_log, runs_here, submits_only
from beam_jobs.options import OPTIONS
from foundation.config_file import read_config
from foundation.errors import INTERRUPTED, RESUMES
from foundation.extras import naming_extras
from foundation.options import declared, default_of, flag_of
from shard_format import ShardmillError

JOBS = {options.COMMAND: options for options in OPTIONS.values()}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one job; the exit code of shardmill."""
    try:
        known, beam_args = _parser(_config(argv)).parse_known_args(argv)
        values = vars(known)
        del values["config"]  # read by `_config`
        job = JOBS[values.pop("job")]
        dry = values.pop("dry_run")
        with beam_log(beam_args, lambda line: print(line, file=sys.stderr)):
            if dry:
                with naming_extras():
                    from beam_jobs.dry_run import dry_run

                print(json.dumps(dry_run(job(**values)).as_json()))
                return 0
            with naming_extras():
                from beam_jobs.run import check_kept, preprocess  # not for --help

            if submits_only(beam_args):
                with naming_extras():
                    from beam_jobs.submit import submit  # loads Beam

                print(json.dumps(submit(job(**values), beam_args)._asdict()))
                return 0
            options = job(**values)
            limit = END_SECONDS if runs_here(beam_args) else None
            with ends_within(limit, _say_interrupted):
                if options.append:
                    from beam_jobs.generations.append import append

                    print(json.dumps(append(options, None, beam_args).summary()))
                    return 0
                report = preprocess(options, beam_args)
        print(json.dumps(report.summary()))
        check_kept(report)
    except KeyboardInterrupt:
        _say_interrupted()
        os._exit(INTERRUPTED)  # threads of Beam still run
    except ShardmillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _say_interrupted() -> None:
    os.write(2, f"interrupted: {RESUMES}\n".encode())


def _config(argv: Sequence[str] | None) -> dict[str, Any]:
    """The options in the file that --config names; none without it.

    Raises:
        InputError: The file cannot be read.
        UsageError: It has an option that is unknown or has a wrong value.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("job", nargs="?")
    parser.add_argument("--config")
    known = parser.parse_known_args(argv)[0]
    if known.config is None or known.job not in JOBS:
        return {}
    return read_config(known.config, declared(JOBS[known.job]), {"sources": tuple, "out": str})


def _parser(config: Mapping[str, Any]) -> argparse.ArgumentParser:
    """The parser; what a --config file has is no longer required."""
    parser = argparse.ArgumentParser(
        prog="python -m beam_jobs",
        description="Builds a shard set with Apache Beam. Flags that are not listed go to Beam.",
        allow_abbrev=False,  # an abbreviation might be meant for Beam
    )
    jobs = parser.add_subparsers(dest="job", required=True)
    for name, options in JOBS.items():
        job = jobs.add_parser(name, help=options.ABOUT.partition("\n")[0], allow_abbrev=False)
        some = "*" if "sources" in config else "+"
        job.add_argument("sources", nargs=some, metavar="SRC")
        job.add_argument(
            "--out", required="out" not in config, metavar="DIR", help="The new shard set."
        )
        job.add_argument(
            "--config",
            metavar="FILE",
            help="Take options from a TOML file, named as their flags; flags given here win.",
        )
        job.add_argument(
            "--dry-run",
            action="store_true",
            help="Print what would be read, and an estimate from a sample; write nothing.",
        )
        for field in declared(options):
            _add_flag(job, field)
        job.set_defaults(**config)
    return parser


class _Joined(argparse.Action):
    """Joins the values of a flag that is given several times by commas."""

    @override
    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        self._values = [*getattr(self, "_values", []), values]
        setattr(namespace, self.dest, ",".join(self._values))


def _add_flag(parser: argparse.ArgumentParser, field: dataclasses.Field[Any]) -> None:
    metadata, shown = field.metadata, default_of(field)
    text = f"{metadata['help']} [default: {shown}]" if shown else metadata["help"]
    text = text.replace("%", "%%")  # which argparse would format
    if metadata["type"] is bool:
        parser.add_argument(flag_of(field.name), action="store_true", help=text)
        return
    parser.add_argument(
        flag_of(field.name),
        action=_Joined if metadata["repeatable"] else "store",
        default=field.default,
        type=metadata["type"],
        choices=list(metadata["choices"]) or None,
        metavar=None if metadata["choices"] else metadata["metavar"] or "NAME",
        help=text,
    )


if __name__ == "__main__":
    sys.exit(main())
