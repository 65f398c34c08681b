"""`shardmill export`: a trained model for servers, phones and other runtimes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import click_options
from cli.places import LOCAL, PLACE, local_copy
from foundation.storage import Place
from inference.export.options import ExportOptions

if TYPE_CHECKING:
    from inference.export import ExportedModel
    from inference.export.result import Measured


@click.command()
@click.argument("run", metavar="RUN", type=PLACE)
@click.option(
    "--out",
    type=LOCAL,
    metavar="DIR",
    help="Directory for the model (default: RUN-TARGET next to RUN; of a URL, NAME-TARGET here).",
)
@click_options(ExportOptions)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def export(run: Place, out: Path | None, as_json: bool, **values: Any) -> None:
    """Export the model of a finished training.

    \b
    saved-model  for TensorFlow Serving and plain TensorFlow: signatures that take the bytes of
                 image files, or texts, and do what preprocessing and the reader did, but for the
                 cleaning steps of texts that a note names. A new version folder each time: DIR/1,
                 DIR/2, ...
    tflite       for LiteRT on phones: pixels or token ids in, float32 or quantized
    onnx         for ONNX Runtime: pixels or token ids in

    RUN, a directory or its URL, is all that is needed; its set is read for --evaluate and
    --quantize int8 only. Every model computes in float32. export.json next to it has the classes,
    the size of images and the measurements. tflite and onnx need 'pip install shardmill[export]'.

    \b
    Examples:
      shardmill export run --out served
      shardmill export run --epoch best --out served
      shardmill export run --to tflite --quantize none,dynamic,float16,int8 --evaluate --out phone
      shardmill export run --to onnx --out onnx
      shardmill export run --evaluate --data /mnt/set     if the set has moved since the training
    """
    if out is None:
        resolved = run.resolve() if isinstance(run, Path) else Path(run.name)
        out = resolved.with_name(f"{resolved.name}-{values['to']}")
    options = ExportOptions(run=local_copy(run), out=out, **values)
    from cli.console import Bars, native_noise_kept, print_json
    from cli.logs import quiet_tensorflow
    from inference.export.locating import read_run
    from trainer.devices import require_backend

    require_backend()
    read_run(options.run, options.epoch)  # at once: loading TensorFlow takes seconds
    quiet_tensorflow()
    with native_noise_kept() as stderr, Bars(stderr) as bars:
        with bars.ends_at_interrupt("nothing was exported; run the same command again"):
            bars.update("load", 0, None, "", "TensorFlow and the model")
            from inference.export import export as export_run
            from inference.export import targets  # noqa: F401 (loads TensorFlow)
        bars.finish("load")

        def show(what: str, done: int, total: int) -> None:
            bars.update("export", done, total, "steps", what)

        done = export_run(options, show)
    if as_json:
        print_json(
            {
                "to": options.to,
                "path": str(done.path),
                "signatures": list(done.signatures),
                "notes": list(done.notes),
                "models": [dataclasses.asdict(model) for model in done.models],
            }
        )
        return
    _print(done, options, run)


def _print(done: ExportedModel, options: ExportOptions, run: Place) -> None:
    from cli.console import say, stdout, table
    from foundation.wording import format_bytes

    columns = ("model", "size", "gzip", "accuracy", "ms/example")
    rows = table("Models", *columns, right=columns[1:])
    for model in done.models:
        rows.add_row(
            model.name,
            format_bytes(model.size_bytes),
            format_bytes(model.gzip_bytes),
            *_measurements(model),
        )
    stdout().print(rows)
    stdout().print()
    for note in done.notes:
        say(f"note       {note}")
    if done.signatures:
        say(f"signatures {', '.join(done.signatures)}")
    say(f"written    {done.path}\nreport     {done.report}")
    if options.to == "saved-model" and done.kind != "packed":
        # Where the tokenizer is not in the model, there is one signature, and only the run has it.
        takes_ids = done.kind == "tokens" and len(done.signatures) == 1
        predictor = run if takes_ids else done.path.parent
        say(f"next       shardmill predict {predictor} FILE")


def _measurements(model: Measured) -> tuple[str, str]:
    accuracy = "" if model.accuracy is None else f"{model.accuracy:.1%}"
    return accuracy, "" if model.milliseconds is None else f"{model.milliseconds:.2f}"
