"""`shardmill demo`: from raw samples to trained models, for images and for text.

A second run reuses the finished sets and training runs, so every number of epochs has a run
directory of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.places import LOCAL

if TYPE_CHECKING:
    from beam_jobs.options import PreprocessOptions
    from trainer import TrainOptions

SAMPLES = Path(__file__).parents[2] / "samples"


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
    from shard_format import InputError

    if not SAMPLES.is_dir():
        raise InputError(
            f"{SAMPLES} does not exist: the demo needs the samples of the repository. Clone it "
            "and run 'make demo' there."
        )
    parts = [_photographs(out, epochs), _questions(out, text_epochs)]
    summaries = [_show(part) for part in parts]
    console = stdout()
    for part, summary in zip(parts, summaries, strict=True):
        console.rule(f"results: {part.noun}", align="left")
        say(f"{summary}\n")


class _Part(NamedTuple):
    """One corpus and a model trained on it.

    Attributes:
        noun: What a record is called, in the plural.
        preprocessing: From the corpus to a shard set.
        training: From the shard set to a model.
    """

    noun: str
    preprocessing: PreprocessOptions
    training: TrainOptions


def _photographs(out: Path, epochs: int) -> _Part:
    """Photographs of clothes in ten classes, and a small convolutional network."""
    from beam_jobs.options import ImageOptions
    from trainer import TrainOptions

    data = out / "clothing"
    preprocessing = ImageOptions(
        sources=(str(SAMPLES / "clothing"),),
        out=str(data),
        name="clothing",
        resize="shorter:128",
        split="train=0.75,validation=0.25",
        num_shards=4,
    )
    training = TrainOptions(
        data=data,
        run_dir=out / f"run-{epochs}-epochs",
        model="small_cnn",
        epochs=epochs,
        batch_size=16,
        label_smoothing=0.1,
        # The crops of "standard" show as little as 8 % of an image, which helps with millions of
        # them. Of 24 a class, small changes of the whole image teach more.
        augment="center_crop,horizontal_flip,scale,rotation,brightness,contrast,saturation",
    )
    return _Part("photographs", preprocessing, training)


def _questions(out: Path, epochs: int) -> _Part:
    """Questions of bank customers in sixteen classes, and a small Transformer on token ids."""
    from beam_jobs.options import TextOptions
    from trainer import TrainOptions

    data = out / "banking"
    preprocessing = TextOptions(
        sources=(str(SAMPLES / "banking"),),
        out=str(data),
        name="banking",
        label_column="category",
        split="folders",
        dedup="near",
        train_tokenizer="bpe:2000",
    )
    run_dir = out / f"banking-run-{epochs}-epochs"
    training = TrainOptions(
        data=data,
        run_dir=run_dir,
        model="text_transformer",
        epochs=epochs,
        validation_split="test",  # the numbers are those of the last epoch, whatever is best
    )
    return _Part("questions", preprocessing, training)


def _show(part: _Part) -> str:
    """Builds the set and trains on it; returns a summary for people."""
    from cli.commands.preprocess import build_set
    from cli.commands.train import train_model
    from cli.console import stdout
    from shard_format import load_manifest

    data, console = part.training.data, stdout()
    source = _shown(Path(part.preprocessing.sources[0]))
    console.rule(f"preprocess {source} -> {data}", align="left")
    build_set(part.preprocessing, [], as_json=False)
    console.print()
    console.rule(f"train {part.training.model} on {data}", align="left")
    result = train_model(part.training, as_json=False)
    console.print()
    classes = len(load_manifest(data).schema["label"].class_names)
    return (
        f"accuracy   {result.final.val_accuracy or 0.0:.1%} on {part.noun} not used for training; "
        f"chance is {1 / classes:.0%} with {classes} classes\n"
        f"shard set  {data}\n"
        f"model      {result.model_path}\n"
        f"logs       {part.training.run_dir / 'tensorboard'}\n"
        f"next       shardmill inspect {data}"
    )


def _shown(path: Path) -> Path:
    """The path relative to the working directory, if it is inside."""
    cwd = Path.cwd()
    return path.relative_to(cwd) if path.is_relative_to(cwd) else path
