"""`shardmill preprocess`: raw corpora to shard sets."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from typing import IO, Any

import click

from beam_jobs.options import PreprocessOptions
from shard_format.errors import InputError


class _WithBeamOptions(click.Command):
    """Everything behind `--` belongs to Beam, not to click."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments and parses our part."""
        ours, _, beam = _split(args)
        ctx.obj = beam
        return super().parse_args(ctx, ours)


def _split(args: list[str]) -> tuple[list[str], str, list[str]]:
    if "--" not in args:
        return args, "", []
    position = args.index("--")
    return args[:position], "--", args[position + 1 :]


def _options(command: Any) -> Any:
    """A flag for every option of the job, from its one definition."""
    for field in reversed(dataclasses.fields(PreprocessOptions)):
        if "help" not in field.metadata:
            continue
        choices = field.metadata["choices"]
        number = "int" in str(field.type)
        command = click.option(
            f"--{field.name.replace('_', '-')}",
            default=field.default,
            type=click.Choice(choices) if choices else (int if number else str),
            metavar=None if choices else field.metadata["metavar"],
            show_default=field.default is not None,
            help=field.metadata["help"],
        )(command)
    return command


@click.group()
def preprocess() -> None:
    """Turn a raw corpus into a shard set."""


@preprocess.command(cls=_WithBeamOptions)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option("--out", required=True, metavar="DIR", help="The new shard set.")
@_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
@click.pass_obj
def images(beam_args: list[str], as_json: bool, **values: Any) -> None:
    """Photographs in class folders (SRC/hat/1.jpg) to a shard set.

    A job that was interrupted goes on where it stopped when the same command is run again.

    \b
    Examples:
      shardmill preprocess images photos --out set
      shardmill preprocess images photos --out set --resize crop:224x224 --split train=0.8,test=0.2
      shardmill preprocess images photos --out set --num-shards 64 --workers 8
      shardmill preprocess images /data/photos --out /data/set -- --runner=FlinkRunner
    """
    build_images(PreprocessOptions(**values), beam_args, as_json)


def build_images(options: PreprocessOptions, beam_args: list[str], as_json: bool) -> None:
    """Runs the job with bars, and prints its ledger."""
    import logging

    from cli.console import Bars, print_json, stdout
    from cli.ledger import print_ledger

    local = not any(argument.startswith("--runner") for argument in beam_args)
    if local:
        from beam_jobs.logs import quiet_beam

        quiet_beam()
    else:
        logging.basicConfig(level=logging.INFO)
    with _stderr(local) as stderr, Bars(stderr) as bars:
        from beam_jobs.run import run_preprocess

        def show(stage: str, done: int, total: int) -> None:
            bars.update(stage, done, total, "records")

        report = run_preprocess(options, beam_args, show)
        bars.finish("list")
    summary = report.manifest.summary()
    if as_json:
        print_json(summary | {"units": report.build.get("units", 0)})
    else:
        print_ledger(report.manifest, report.build, report.ignored)
        stdout().print(_closing(report, options.out))
    if not report.manifest.ledger.kept:
        raise InputError(
            f"a corpus must have a record that can be used, got none of {summary['read']} in "
            f"{', '.join(options.sources)}. The files and the reasons are in "
            f"{options.out}/quarantine."
        )


def _closing(report: Any, out: str) -> str:
    build = report.build
    if report.already_built:
        first = f"{out} holds this very set already; nothing had to be done"
    else:
        reused = build["units_reused"]
        again = f", {reused} of {build['units']} units reused" if reused else ""
        rate = f"{build['records_per_second']:,.0f} records/s"
        first = f"built in {build['seconds']:.1f} s ({rate}{again})"
    return f"{first}\nnext       shardmill train {out} --model small_cnn"


@contextlib.contextmanager
def _stderr(quiet: bool) -> Iterator[IO[str]]:
    """Where bars go; a cluster's runner keeps its own log lines."""
    from cli.console import native_noise_kept

    if not quiet:
        yield sys.stderr
        return
    with native_noise_kept() as real:
        yield real
