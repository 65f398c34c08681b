"""`shardmill preprocess`: turns raw corpora into shard sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from typing_extensions import override

from beam_jobs.options import OPTIONS, PreprocessOptions, RecordOptions
from cli.config_file import config_options, save
from cli.options import click_options
from cli.places import PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place
from shard_format import Schema


class _WithBeamOptions(click.Command):
    """A command whose arguments after `--` belong to Beam, not to click."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Splits the arguments at `--` and parses the first part."""
        position = args.index("--") if "--" in args else len(args)
        ctx.obj = args[position + 1 :]
        return super().parse_args(ctx, args[:position])


class _Jobs(click.Group):
    """The jobs by record type; where the type is left out, the error says which one it may be."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            from beam_jobs.corpus.record_type_guess import check_is_no_source

            check_is_no_source(args)
        return super().resolve_command(ctx, args)


@click.group(cls=_Jobs)
def preprocess() -> None:
    """Turn a raw corpus into a shard set.

    Images; or documents, stored as text, as token ids, or packed into sequences; or records of any
    features, which a Python program reads.
    """


def _job(options: type[PreprocessOptions]) -> click.Command:
    """The command of a job on one record type."""
    sources = click.argument(
        "sources", nargs=-1, required=True, metavar="SRC...", type=click.Path()
    )
    if options is RecordOptions:
        sources = click.option(
            "--from",
            "sources",
            required=True,
            metavar="MODULE:SOURCE",
            help="The object that lists and reads.",
        )

    @click.command(options.COMMAND, cls=_WithBeamOptions, help=options.ABOUT)
    @sources
    @click.option(
        "--out", required=True, metavar="DIR", type=click.Path(), help="The new shard set."
    )
    @click_options(options)
    @config_options(options, {"sources": tuple, "out": str})
    @_like_option(options)
    @click.option(
        "--dry-run",
        is_flag=True,
        help="Print what would be read, and an estimate of time and disk from a sample; write "
        "nothing.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
    @click.pass_context
    def job(
        ctx: click.Context,
        /,
        as_json: bool,
        save_config: str | None,
        dry_run: bool,
        **values: Any,
    ) -> None:
        asked = options(**values)
        if save_config is not None:
            further = {"sources": asked.sources, "out": asked.out}
            save(save_config, asked, further, f"shardmill preprocess {options.COMMAND}")
        beam_args: list[str] = ctx.obj
        if dry_run:
            show_dry_run(asked, _given(ctx), as_json)
        elif asked.append:
            append_to_set(asked, _given(ctx), beam_args, as_json)
        else:
            build_set(asked, beam_args, as_json)

    return job


def _like_option(options: type[PreprocessOptions]) -> Callable[[Any], Any]:
    """The flag --like: options of another set as defaults, which --config comes before."""

    def load(ctx: click.Context, _: click.Parameter, directory: Place | None) -> None:
        from beam_jobs.like import options_like

        if directory is not None:
            ctx.default_map = {**options_like(directory, options), **(ctx.default_map or {})}

    return click.option(
        "--like",
        metavar="SET",
        type=PLACE,
        is_eager=True,  # before the flags, whose defaults it sets
        expose_value=False,
        callback=load,
        help="Take the options that another set was built with, as far as they change records; "
        "--config and flags given here win.",
    )


for _options in OPTIONS.values():
    preprocess.add_command(_job(_options))


def show_dry_run(options: PreprocessOptions, given: set[str], as_json: bool) -> None:
    """Prints what the job would do, after a look at the corpus; see `append_to_set`."""
    from beam_jobs.dry_run import dry_run
    from cli.console import Bars, native_noise_kept, print_json
    from cli.dry_run import print_dry_run

    with native_noise_kept() as stderr, Bars(stderr) as bars:
        units = {"list": "files", "sample": ""}
        outlook = dry_run(
            options,
            lambda stage, done, total: bars.update(stage, done, total, units[stage]),
            given,
        )
    if as_json:
        print_json(outlook.as_json())
    else:
        print_dry_run(outlook)


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
    from beam_jobs.engine.interrupts import END_SECONDS, exit_on_interrupt
    from beam_jobs.engine.logs import beam_log, runs_here, submits_only
    from cli.console import Bars, native_noise_kept, print_json, say
    from cli.ledger import print_ledger, print_warnings
    from foundation.errors import INTERRUPTED, RESUMES

    units = {"list": "files", "stage": "bytes"}
    with (
        native_noise_kept() as stderr,
        Bars(stderr) as bars,
        exit_on_interrupt(
            END_SECONDS if runs_here(beam_args) else None,
            lambda: bars.say_at_the_end("interrupted", RESUMES, INTERRUPTED),
        ),
        beam_log(beam_args, bars.note),
    ):
        from beam_jobs.run import check_kept, preprocess

        if submits_only(beam_args):
            from beam_jobs.submit import submit  # loads Beam

            submitted = submit(options, beam_args)
            print_json(submitted._asdict()) if as_json else say(str(submitted))
            return

        def show(stage: str, done: int, total: int) -> None:
            bars.update(stage, done, total, units.get(stage, "records"))

        bars.begin_if_long("list", units["list"])  # large annotations are read before
        report = preprocess(options, beam_args, show, bars.note)
    if as_json:
        print_json(report.summary())
    else:
        print_ledger(report.manifest, report.build, report.ignored)
        say(_closing(report, shown or options.out))
        print_warnings(report.manifest, report.build)
    check_kept(report)


def _given(ctx: click.Context) -> set[str]:
    """The options on the command line or in a --config file."""
    unset = (ParameterSource.DEFAULT, ParameterSource.ENVIRONMENT)
    return {name for name in ctx.params if ctx.get_parameter_source(name) not in unset}


def append_to_set(
    options: PreprocessOptions, given: set[str], beam_args: list[str], as_json: bool
) -> None:
    """Adds a generation with progress bars, and prints its ledger.

    Args:
        options: The job.
        given: Names of the options that the user gave.
        beam_args: Pipeline options for Beam.
        as_json: Print one JSON object instead.
    """
    from beam_jobs.engine.logs import beam_log
    from cli.console import Bars, native_noise_kept, print_json, say
    from cli.ledger import print_ledger, print_warnings

    units = {"list": "files", "stage": "bytes"}
    with native_noise_kept() as stderr, Bars(stderr) as bars, beam_log(beam_args, bars.note):
        from beam_jobs.generations.append import append

        def show(stage: str, done: int, total: int) -> None:
            bars.update(stage, done, total, units.get(stage, "records"))

        bars.begin_if_long("list", units["list"])
        added = append(options, given, beam_args, show, bars.note)
    if as_json:
        print_json(added.summary())
        return
    if added.already_built:
        say(f"{options.out} has these sources already: generation {added.number}; nothing to do")
        return
    print_ledger(added.own, added.build, added.ignored)
    records = sum(split.records for split in added.manifest.splits.values())
    say(
        f"generation {added.number} of {options.out}, which has {records:,} records now; root hash "
        f"{added.manifest.root_hash}\nnext       shardmill log {options.out}"
    )
    print_warnings(added.manifest, added.build)


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
    return f"{first}{_asks_again(report, out)}\nnext       {following}"


def _asks_again(report: Any, out: str) -> str:
    """A line on the URLs that may be fetched at another time; "" if there are none."""
    from beam_jobs.corpus.urls.reasons import may_come_back
    from foundation.wording import counted

    if not report.build.get("options", {}).get("keep_originals"):
        return ""
    reasons = report.manifest.ledger.reasons.items()
    failed = sum(number for reason, number in reasons if may_come_back(reason))
    if not failed:
        return ""
    return (
        f"\nlater      {counted(failed, 'URL')} may answer at another time: shardmill quarantine "
        f"replay {out}"
    )


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
