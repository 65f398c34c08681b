"""`shardmill doctor`: find the bottleneck of a training, and options that make it faster."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import click_options
from cli.places import PLACE
from cli.storage_speed import storage_line
from foundation.storage import Place
from trainer.options import TrainOptions

if TYPE_CHECKING:
    from trainer.diagnosis.diagnosing import Diagnosis

# The options of `shardmill train` on which its speed depends.
_OPTIONS = (
    "model",
    "image_size",
    "max_tokens",
    "buckets",
    "batch_size",
    "optimizer",
    "precision",
    "strategy",
    "augment",
    "normalize",
    "cache",
    "cache_stage",
    "cache_dir",
    "cache_limit",
)
_CROWDED = 0.2  # cores used by other programs, from which on a note is printed
_SECONDS = 3.0  # for each measurement


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click_options(TrainOptions, _OPTIONS)
@click.option(
    "--seconds",
    default=_SECONDS,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Duration of each measurement; there are about ten.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def doctor(directory: Place, seconds: float, as_json: bool, **values: Any) -> None:
    """Find the bottleneck of a training, and options that make it faster.

    Storage, parsing, decoding, augmentation, copying and the training step are each measured
    alone, and together in a short training. The advice names the command that makes the slowest
    stage cheaper, and the rate that it can reach at most. Nothing is written.

    \b
    Examples:
      shardmill doctor set --model resnet50
      shardmill doctor set --model small_cnn --batch-size 256 --augment strong --cache off
      shardmill doctor reviews --max-tokens 400 --seconds 10
    """
    from shard_format import load_manifest

    load_manifest(directory)  # a wrong path is reported at once, not after TensorFlow was loaded
    from cli.console import Bars, native_noise_kept, print_json
    from cli.logs import quiet_tensorflow

    # There is no run, but the options need a directory for one.
    asked = TrainOptions(data=directory, run_dir=Path(tempfile.gettempdir()), **values)
    quiet_tensorflow()
    with native_noise_kept() as stderr, Bars(stderr) as bars:
        with bars.ends_at_interrupt():
            bars.update("load", 0, None, "", "TensorFlow, the data and the model")
            from trainer.diagnosis.diagnosing import diagnose

        bars.finish("load")
        done = 0

        def show(name: str) -> None:
            nonlocal done
            bars.update("measure", done, None, "", name)
            done += 1

        diagnosis = diagnose(asked, seconds, show)
        bars.finish("measure")
    if as_json:
        print_json(diagnosis.as_json())
        return
    _print(directory, diagnosis)


def _print(directory: Place, diagnosis: Diagnosis) -> None:
    from cli.console import bar, say, stdout, table
    from trainer.diagnosis.costs import predicted_rate, stage_rates

    costs = diagnosis.costs
    rates = stage_rates(costs)
    slowest = min(rates.values())
    cpu = dict(costs.cpu_seconds) | {"step": costs.step_cpu_seconds}
    columns = ("stage", "CPU ms/example", "alone, examples/s", "time")
    rows = table("Stages, each with nothing else at work", *columns, right=columns[1:3])
    for name, rate in rates.items():
        if rate == float("inf"):
            continue
        mark = " bottleneck" if name == diagnosis.verdict.stage else ""
        milliseconds = f"{1e3 * cpu.get(name, 0.0):.3f}"
        rows.add_row(name, milliseconds, f"{rate:,.0f}", bar(slowest / rate) + mark)
    stdout().print(rows)
    say(
        f"{storage_line(diagnosis.stages.storage, directory)}; "
        f"cache {diagnosis.info.cache}: {diagnosis.info.cache_reason}"
    )
    say(
        f"training   {diagnosis.training.rate:,.0f} examples/s with all at work; expected of these "
        f"stages on {costs.cores:g} cores: {predicted_rate(costs):,.0f}\n"
        f"input      {diagnosis.verdict.headroom:.1f} x as fast as that, alone\n\n"
        f"{diagnosis.sentence}"
    )
    others = diagnosis.training.others_cores
    if others >= _CROWDED:
        say(
            f"(note: other programs used {others:.1f} cores meanwhile. Shares are those of a "
            "machine without them, rates are not: run it again when they are done.)"
        )
    for number, proposal in enumerate(diagnosis.proposals, 1):
        say(
            f"\n{number}. {proposal.remedy}: at most {proposal.rate:,.0f} examples/s "
            f"({proposal.gain:.2f} x), for {proposal.advice.because}"
        )
        for line in proposal.command.splitlines():
            say(f"   {line}")
        if proposal.advice.note:
            say(f"   (note: {proposal.advice.note})")
