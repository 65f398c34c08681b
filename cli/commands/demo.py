"""`shardmill demo`: from raw samples to trained models, for images and for text."""

from __future__ import annotations

from pathlib import Path

import click

from cli.places import LOCAL


@click.command()
@click.option(
    "--out",
    default="shardmill-demo",
    show_default=True,
    metavar="DIR",
    type=LOCAL,
    help="Folder for the shard sets and the training runs.",
)
@click.option(
    "--epochs", default=40, show_default=True, metavar="N", help="Epochs over the photographs."
)
@click.option(
    "--text-epochs", default=6, show_default=True, metavar="N", help="Epochs over the questions."
)
def demo(out: Path, epochs: int, text_epochs: int) -> None:
    """Preprocess sample photographs and texts, train on both, and list what was written.

    320 photographs of clothes in 10 classes, with two duplicates and two broken files; then 2,723
    questions of bank customers in 16 classes, with two duplicates and a broken row that we added.
    A second run reuses what is finished.

    \b
    Examples:
      shardmill demo
      shardmill demo --out /tmp/demo --epochs 12 --text-epochs 3
    """
    from cli.console import say, stdout
    from cli.demonstration import SAMPLES, photographs, questions, show
    from shard_format import InputError

    if not SAMPLES.is_dir():
        raise InputError(
            f"{SAMPLES} does not exist: the demo needs the samples of the repository. Clone it "
            "and run 'make demo' there."
        )
    parts = [photographs(out, epochs), questions(out, text_epochs)]
    summaries = [show(part) for part in parts]
    console = stdout()
    for part, summary in zip(parts, summaries, strict=True):
        console.rule(f"results: {part.noun}", align="left")
        say(f"{summary}\n")
