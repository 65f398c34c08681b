"""`shardmill preprocess`: turns raw corpora into shard sets."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import IO, Any

import click

from beam_jobs.options import ImageOptions, PreprocessOptions, TextOptions
from cli.options import click_options
from shard_format import Schema


class _WithBeamOptions(click.Command):
    """A command whose arguments after `--` belong to Beam, not to click."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments at `--` and parses the first part."""
        position = args.index("--") if "--" in args else len(args)
        ctx.obj = args[position + 1 :]
        return super().parse_args(ctx, args[:position])


@click.group()
def preprocess() -> None:
    """Turn a raw corpus into a shard set.

    Images; or documents, stored as text, as token ids, or packed into sequences.
    """


@preprocess.command(cls=_WithBeamOptions)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option("--out", required=True, metavar="DIR", help="The new shard set.")
@click_options(ImageOptions)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
@click.pass_obj
def images(beam_args: list[str], /, as_json: bool, **values: Any) -> None:
    """Turn images in folders, archives or tables into a shard set.

    SRC may be class folders (SRC/hat/1.jpg), any folder with --labels FILE, tar or zip archives
    (also of WebDataset), Parquet, Arrow, TFRecord or IDX files. Pass several of one kind, or quoted
    globs.

    If the job is interrupted, run the same command again; it resumes. Arguments after -- go to
    Apache Beam.

    \b
    Examples:
      shardmill preprocess images photos --out set
      shardmill preprocess images photos --labels labels.csv --label-column class --out set
      shardmill preprocess images 'shards/*.tar' --out set --dedup near --stratify
      shardmill preprocess images photos --out set --resize crop:224x224 --split train=0.8,test=0.2
      shardmill preprocess images photos --out set --num-shards 64 --workers 8
      shardmill preprocess images /data/photos --out /data/set -- --runner=FlinkRunner
    """
    build_set(ImageOptions(**values), beam_args, as_json)


@preprocess.command(cls=_WithBeamOptions)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option("--out", required=True, metavar="DIR", help="The new shard set.")
@click_options(TextOptions)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
@click.pass_obj
def text(beam_args: list[str], /, as_json: bool, **values: Any) -> None:
    """Turn documents in files of any format into a shard set.

    SRC may be folders, files, tar or zip archives of plain text, HTML, JSON, JSON Lines, CSV, TSV,
    WARC, Parquet, Arrow or TFRecord, compressed or not.

    If the job is interrupted, run the same command again; it resumes. Arguments after -- go to
    Apache Beam.

    \b
    Examples:
      shardmill preprocess text reviews --out set
      shardmill preprocess text corpus.jsonl.zst --text-column body --label-column topic --out set
      shardmill preprocess text 'crawl/*.warc.gz' --clean web-en --dedup near --no-labels --out set
      shardmill preprocess text books --no-labels --train-tokenizer bpe:32000 --pack 2048 --out set
    """
    build_set(TextOptions(**values), beam_args, as_json)


def build_set(
    options: PreprocessOptions, beam_args: list[str], as_json: bool, shown: str | None = None
) -> None:
    """Runs the job with progress bars, and prints its ledger.

    Args:
        options: The job.
        beam_args: Pipeline options for Beam.
        as_json: Print one JSON object instead.
        shown: The folder to name at the end, if it is not the output.
    """
    import logging

    from beam_jobs.engine.logs import quiet_beam, runs_here
    from cli.console import Bars, print_json, say
    from cli.ledger import print_ledger

    units = {"list": "files", "stage": "bytes"} if options.record_type == "text" else {}
    if runs_here(beam_args):
        quiet_beam()
    else:
        logging.basicConfig(level=logging.INFO)
    with _stderr(runs_here(beam_args)) as stderr, Bars(stderr) as bars:
        from beam_jobs.run import check_kept, preprocess

        def show(stage: str, done: int, total: int) -> None:
            bars.update(stage, done, total, units.get(stage, "records"))

        report = preprocess(options, beam_args, show)
    summary = report.manifest.summary()
    if as_json:
        print_json(summary | {"units": report.build.get("units", 0), "ignored": report.ignored})
    else:
        print_ledger(report.manifest, report.build, report.ignored)
        say(_closing(report, shown or options.out))
    check_kept(report)


def _closing(report: Any, out: str) -> str:
    build = report.build
    if report.already_built:
        first = f"{out} holds this very set already; nothing to do"
    else:
        reused = build["units_reused"]
        again = f", {reused} of {build['units']} units reused" if reused else ""
        rate = f"{build['records_per_second']:,.0f} records/s"
        first = f"built in {build['seconds']:.1f} s ({rate}{again})"
    following = f"shardmill quarantine list {out}"
    if report.manifest.ledger.kept:
        following = next_command(report.manifest.schema, out)
    return f"{first}\nnext       {following}"


def next_command(schema: Schema, out: str) -> str:
    """The command to suggest: train, if one of our models fits the set; else read."""
    features = {feature.name: feature for feature in schema.features}
    if "segments" in features:
        return f"shardmill train {out} --model causal_transformer"
    label = features.get("label")
    if label is not None and label.shape == () and len(label.class_names) > 1:
        if schema.record_type == "image":
            return f"shardmill train {out} --model small_cnn"
        if "tokens" in features:
            return f"shardmill train {out} --model text_transformer"
    return f"shardmill read {out}"


@contextlib.contextmanager
def _stderr(quiet: bool) -> Iterator[IO[str]]:
    """The stream for progress bars; on a cluster the runner's log lines share it."""
    from cli.console import native_noise_kept

    if not quiet:
        yield sys.stderr
        return
    with native_noise_kept() as real:
        yield real
