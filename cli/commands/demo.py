"""`shardmill demo`: the whole way on the sample photographs."""

from __future__ import annotations

from pathlib import Path

import click

_SAMPLES = Path(__file__).parents[2] / "samples" / "clothing"


@click.command()
@click.option(
    "--out",
    default="shardmill-demo",
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the shard set and the run go.",
)
@click.option("--epochs", default=40, show_default=True, metavar="N", help="Epochs to train.")
def demo(out: Path, epochs: int) -> None:
    """Preprocess sample photographs, train a small network on them, say where everything lies.

    320 photographs of clothes in 10 classes, two duplicates and two broken files. Run it again:
    what is done already is not done twice.
    """
    from beam_jobs.options import ImageOptions
    from cli.commands.preprocess import build_set
    from cli.commands.train import train_model
    from cli.console import say, stdout
    from shard_format import InputError, load_manifest
    from trainer import TrainOptions

    if not _SAMPLES.is_dir():
        raise InputError(
            f"the demo needs the sample photographs of the repository, got no folder {_SAMPLES}. "
            "Clone the repository and run 'make demo' in it."
        )
    # One run directory per number of epochs, for a run cannot go on with another number.
    data, run_dir = out / "clothing", out / f"run-{epochs}-epochs"
    training = TrainOptions(data=data, run_dir=run_dir, model="small_cnn", epochs=epochs)
    console = stdout()
    console.rule(f"1. preprocess {_shown(_SAMPLES)} -> {data}", align="left")
    options = ImageOptions(
        sources=(str(_SAMPLES),),
        out=str(data),
        name="clothing",
        resize="shorter:128",
        split="train=0.75,validation=0.25",
        num_shards=4,
    )
    build_set(options, [], as_json=False)
    console.print()
    console.rule(f"2. train a small convolutional network on {data}", align="left")
    result = train_model(training, as_json=False)
    accuracy = result.final.val_accuracy or 0.0
    classes = len(load_manifest(data).schema["label"].class_names)
    console.print()
    console.rule("3. what you have now", align="left")
    say(
        f"accuracy   {accuracy:.1%} of the validation photographs are right; "
        f"guessing one of {classes} classes is right for {1 / classes:.0%}\n"
        f"shard set  {data}\n"
        f"model      {result.model_path}\n"
        f"logs       {run_dir / 'tensorboard'}\n"
        f"next       shardmill inspect {data}"
    )


def _shown(path: Path) -> Path:
    """Relative to the working directory where that is shorter."""
    cwd = Path.cwd()
    return path.relative_to(cwd) if path.is_relative_to(cwd) else path
