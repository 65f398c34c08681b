"""`shardmill demo`: the whole way, on the sample photographs and the sample questions."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    default="shardmill-demo",
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the shard sets and the runs go.",
)
@click.option(
    "--epochs", default=40, show_default=True, metavar="N", help="Epochs over the photographs."
)
@click.option(
    "--text-epochs", default=6, show_default=True, metavar="N", help="Epochs over the questions."
)
def demo(out: Path, epochs: int, text_epochs: int) -> None:
    """Preprocess sample photographs and texts, train on both, say where everything lies.

    320 photographs of clothes in 10 classes, two duplicates and two broken files; then 2,723
    questions of bank customers in 16 classes, with two duplicates and a broken row of ours. Run
    it again: what is done already is not done twice.
    """
    from cli.console import say, stdout
    from cli.demonstration import SAMPLES, photographs, questions, show
    from shard_format import InputError

    if not SAMPLES.is_dir():
        raise InputError(
            f"the demo needs the samples of the repository, got no folder {SAMPLES}. "
            "Clone the repository and run 'make demo' in it."
        )
    parts = [photographs(out, epochs), questions(out, text_epochs)]
    made = [show(part) for part in parts]
    console = stdout()
    for part, words in zip(parts, made, strict=True):
        console.rule(f"what you have now: {part.noun}", align="left")
        say(f"{words}\n")
