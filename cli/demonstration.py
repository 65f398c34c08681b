"""The two parts of `shardmill demo`: raw samples to a shard set, and a small network on it.

A second run reuses the finished sets and training runs, so every number of epochs has a run
directory of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from beam_jobs.options import PreprocessOptions
    from trainer import TrainOptions

SAMPLES = Path(__file__).parents[1] / "samples"


class Part(NamedTuple):
    """One corpus and a model trained on it.

    Attributes:
        noun: What a record is called, in the plural.
        preprocessing: From the corpus to a shard set.
        training: From the shard set to a model.
    """

    noun: str
    preprocessing: PreprocessOptions
    training: TrainOptions


def photographs(out: Path, epochs: int) -> Part:
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
    return Part("photographs", preprocessing, training)


def questions(out: Path, epochs: int) -> Part:
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
    return Part("questions", preprocessing, training)


def show(part: Part) -> str:
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
