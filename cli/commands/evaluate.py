"""`shardmill evaluate`: how right a trained or exported model is."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from cli.places import FILE, PLACE, local_copy
from cli.run_options import EPOCH
from foundation.storage import Place

if TYPE_CHECKING:
    from inference.evaluation.scores import Evaluation

_SHOWN_CLASSES = 50  # more would push the summary off the screen; --json has all
_SHOWN_MISTAKES = 3  # of a class
_NAME_WIDTH = 30


@click.command()
@click.argument("model", metavar="MODEL", type=PLACE)
@click.option(
    "--data",
    type=PLACE,
    metavar="PATH",
    help="A shard set, or a folder with a folder of files for each class (default: the set that "
    "the model was trained on).",
)
@click.option("--split", default="test", show_default=True, metavar="NAME", help="Split of a set.")
@EPOCH
@click.option("--page", type=FILE, metavar="FILE", help="Write an HTML page with the results.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def evaluate(
    model: Place, data: Place | None, split: str, epoch: str, page: Place | None, as_json: bool
) -> None:
    """Measure a model on records that it was not trained on.

    MODEL is the directory of a run or of an export, of which the latest version answers, or its
    URL, or a .tflite or .onnx file. It prints loss and accuracy, next to the accuracy of always
    answering the most frequent class, and precision and recall of each class; --json and --page
    also have the confusion matrix. Of a language model it prints loss and perplexity.

    Files in a folder are as they were before preprocessing, as for 'shardmill predict'.

    \b
    Examples:
      shardmill evaluate run
      shardmill evaluate run --epoch best --split test --page test.html
      shardmill evaluate run --data photos          photos/hat/1.jpg, photos/shoes/2.jpg, ...
      shardmill evaluate served --data other-set
      shardmill evaluate phone/model-int8.tflite --json

    Exit code 3 if a file cannot be read; the others are measured all the same.
    """
    from shard_format import InputError

    path = local_copy(model)
    if not path.exists():
        raise InputError(
            f"{model} does not exist. Pass the --run-dir of 'shardmill train' or the --out of "
            "'shardmill export'."
        )
    from cli.commands.predict import text_cleaner
    from cli.console import Bars, native_noise_kept, print_json
    from cli.logs import quiet_tensorflow
    from foundation.extras import naming_extras
    from trainer.devices import require_backend

    require_backend()

    quiet_tensorflow()
    with native_noise_kept() as stderr, Bars(stderr) as bars, bars.ends_at_interrupt():
        bars.update("load", 0, None, "", "TensorFlow and the model")
        with naming_extras():
            from inference.evaluation.evaluating import evaluate as measured

        def show(done: int, total: int) -> None:
            bars.update("evaluate", done, total, "records")

        result = measured(path, data, split, epoch, show, text_cleaner)
    result = dataclasses.replace(result, model=result.model.replace(str(path), str(model)))
    if page is not None:
        from cli.evaluation_page import write_evaluation

        write_evaluation(result, summary(result), page)
    if as_json:
        written = {"page": str(page)} if page is not None else {}
        print_json(dataclasses.asdict(result) | written)
    else:
        _print(result, page)
    for name, reason in result.failed:
        click.echo(f"error: {name}: {reason}", err=True)
    if result.failed:
        raise SystemExit(3)


def _print(result: Evaluation, page: Place | None) -> None:
    from cli.console import say, stdout, table
    from foundation.wording import shortened, visible

    if result.classes:
        columns = ("class", "records", "precision", "recall")
        rows = table("Classes", *columns, "mistaken for", right=columns[1:])
        for number, one in enumerate(result.classes[:_SHOWN_CLASSES]):
            rows.add_row(
                shortened(visible(one.name), _NAME_WIDTH),
                f"{one.support:,}",
                *("" if x is None else f"{x:.1%}" for x in (one.precision, one.recall)),
                _mistakes(result, number),
            )
        stdout().print(rows)
        if len(result.classes) > _SHOWN_CLASSES:
            stdout().print(f"and {len(result.classes) - _SHOWN_CLASSES} more; --json has all")
        stdout().print()
    say("\n".join(f"{name:<11}{text}" for name, text in summary(result)))
    if page is not None:
        say(f"{'page':<11}{page}")


def _mistakes(result: Evaluation, number: int) -> str:
    """What the records of a class are most often taken for: "shirt 3, hat 1"."""
    from foundation.wording import shortened, visible

    if result.matrix is None:
        return ""
    row = [(count, other) for other, count in enumerate(result.matrix[number]) if count]
    wrong = sorted((-count, other) for count, other in row if other != number)
    return ", ".join(
        f"{shortened(visible(result.classes[other].name), _NAME_WIDTH)} {-count:,}"
        for count, other in wrong[:_SHOWN_MISTAKES]
    )


def summary(result: Evaluation) -> list[tuple[str, str]]:
    """(name, value) of the numbers of an evaluation."""
    from foundation.wording import counted

    where = f"split {result.split} of {result.data}" if result.split else result.data
    noun = "record" if result.classes else "sequence"
    rows = [("measured", f"{counted(result.records, noun)} of {where}")]
    rows.append(("loss", f"{result.loss:.4f}"))
    if result.perplexity is not None:
        rows.append(("perplexity", f"{result.perplexity:.2f}"))
        return [*rows, ("accuracy", f"{result.accuracy:.1%} of the tokens")]
    if result.f1 is not None:
        rows.append(("F1", f"{result.f1:.1%} of all labels"))
        return [*rows, ("accuracy", f"{result.accuracy:.1%} of the records with all labels right")]
    rows.append(("accuracy", f"{result.accuracy:.1%}"))
    if result.baseline is not None:
        rows.append(("baseline", result.baseline.text))
    return rows
