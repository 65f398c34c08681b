"""`shardmill predict`: classes of files or texts, by a run or an exported model."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.places import PLACE, local_copy
from cli.run_options import EPOCH
from foundation.storage import Place

if TYPE_CHECKING:
    from inference.export.predicting import Clean, Prediction, Predictor


@click.command()
@click.argument("model", metavar="MODEL", type=PLACE)
@click.argument("files", metavar="FILE...", nargs=-1, type=click.Path())
@click.option("--text", "texts", multiple=True, metavar="TEXT", help="A text to classify; repeat.")
@click.option(
    "--lines", is_flag=True, help="Of text files, classify every line rather than the file."
)
@click.option("--top", default=1, show_default=True, metavar="N", help="Classes to print.")
@EPOCH
@click.option(
    "--data",
    type=PLACE,
    metavar="SET",
    help="Of a run of an earlier version, which needs its set: where that is, if it has moved.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def predict(
    model: Place,
    files: Sequence[str],
    texts: Sequence[str],
    lines: bool,
    top: int,
    epoch: str,
    data: Place | None,
    as_json: bool,
) -> None:
    """Predict the classes of images or texts.

    MODEL is the directory of a run, or of an export to saved-model, of which the latest version
    answers, or its URL. Files, or all files in folders, are as they were before preprocessing:
    images are decoded and resized as in the set, and texts go through its cleaning steps, whether
    or not an export has them. A text that these would reject is predicted all the same, with a
    note.
    "-" reads a text from stdin.

    \b
    Examples:
      shardmill predict run hat.jpg shirt.png
      shardmill predict served photos --top 3
      shardmill predict text-run --text "Where is my card?"
      shardmill predict text-run questions.txt --lines --json
      echo "Where is my card?" | shardmill predict text-run -

    Exit code 3 if a file cannot be read; the others are predicted all the same.
    """
    from shard_format import InputError, UsageError

    if not files and not texts:
        raise UsageError("Nothing to predict. Name files, or pass --text TEXT for a text model.")
    if top < 1:
        raise UsageError(f"--top is {top}. Pass 1 or more.")
    from cli.console import Bars, native_noise_kept
    from cli.logs import quiet_tensorflow
    from inference.export.locating import locate
    from trainer.devices import require_backend

    require_backend()
    path = local_copy(model)
    locate(path, epoch)  # what is wrong is said at once: loading TensorFlow takes seconds
    quiet_tensorflow()
    with native_noise_kept() as stderr, Bars(stderr) as bars, bars.ends_at_interrupt():
        bars.update("load", 0, None, "", "TensorFlow and the model")
        from foundation.extras import naming_extras

        with naming_extras():
            from inference.export.predicting import open_predictor

            predictor = open_predictor(path, epoch, data, text_cleaner)
        _require_kind(predictor, texts, lines)
        names = _listed(files)
        failed: list[Prediction] = []
        total = None if lines else len(names) + len(texts)
        bars.finish("load")
        predictions: list[Prediction] = []
        given = ((text, text.encode()) for text in texts)
        inputs = _inputs(predictor, names, lines, failed)
        for prediction in itertools.chain(
            predictor.predict(given, are_files=False),
            predictor.predict(inputs, are_files=not lines),
        ):
            predictions.append(prediction)
            bars.update("predict", len(predictions) + len(failed), total, "examples")
    predictions += failed
    if not predictions:
        raise InputError(
            f"Nothing to predict in {', '.join(files)}: an empty folder, or no line of text. Name "
            "files, or folders that hold some."
        )
    _show(predictor, predictions, top, as_json)
    if any(prediction.error for prediction in predictions):
        raise SystemExit(3)


def text_cleaner(config: Mapping[str, Any]) -> Clean:
    """The cleaning of a set, which needs what preprocessing needs."""
    from beam_jobs.text.recleaning import TextCleaner

    return TextCleaner(config)


def _require_kind(predictor: Predictor, texts: Sequence[str], lines: bool) -> None:
    from shard_format import UsageError

    if predictor.kind != "tokens" and (texts or lines):
        raise UsageError("The model is for images, and --text and --lines are for texts.")


def _inputs(
    predictor: Predictor, names: Sequence[str], lines: bool, failed: list[Prediction]
) -> Iterator[tuple[str, bytes]]:
    """(name, content) of all that can be read in files; others are appended to `failed`."""
    from inference.export.predicting import Prediction

    is_text = predictor.kind == "tokens"
    for name in names:
        try:
            content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
            if is_text:
                content.decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            failed.append(Prediction(name, (), reason))
            continue
        if not lines:
            yield name, content.strip() if name == "-" and is_text else content
            continue
        yield from ((line.decode(), line) for line in content.splitlines() if line.strip())


def _listed(files: Sequence[str]) -> list[str]:
    """The files, with those in folders in their place, ordered by name."""
    listed = []
    for name in files:
        inside = sorted(Path(name).iterdir()) if name != "-" and Path(name).is_dir() else None
        listed += [name] if inside is None else [str(path) for path in inside if path.is_file()]
    return listed


def _show(predictor: Predictor, found: list[Prediction], top: int, as_json: bool) -> None:
    from cli.console import print_json, say
    from foundation.wording import visible

    notes = predictor.clean.notes if predictor.clean else []
    if as_json:
        rows = [dataclasses.asdict(one) | {"classes": dict(one.classes[:top])} for one in found]
        print_json({"multi_label": predictor.multi_label, "notes": notes, "predictions": rows})
        return
    for note in notes:
        click.echo(f"note: {note}", err=True)
    for one in found:
        name = visible(one.name)
        if one.error:
            click.echo(f"error: {name}: {visible(one.error)}", err=True)
            continue
        if one.rejection:
            reason = visible(one.rejection)
            click.echo(f"note: {name}: preprocessing would reject it, {reason}", err=True)
        classes = one.classes[:top]
        if predictor.multi_label:
            classes = tuple(pair for pair in one.classes if pair[1] > 0.5) or classes
        say(f"{name}  " + "  ".join(f"{label} {share:.1%}" for label, share in classes))
