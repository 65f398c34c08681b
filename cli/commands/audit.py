"""`shardmill audit`: what somebody should look at before training on a set."""

from __future__ import annotations

import contextlib
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beam_jobs.audit.checks import CHECKS
from cli.places import FOLDER, LOCAL, PLACE
from cli.run_options import EPOCH

if TYPE_CHECKING:  # pyarrow takes a while to import
    from beam_jobs.audit.auditing import AuditResult
    from beam_jobs.audit.predictions import Predictions
    from cli.console import Bars
    from foundation.storage import Place


@click.command()
@click.argument("directory", metavar="SET", type=PLACE)
@click.option(
    "--out",
    metavar="DIR",
    type=FOLDER,
    show_default="SET-audit",
    help="Folder for the page, the table and the lists of ids; not in the set.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    type=LOCAL,
    multiple=True,
    help="A run of 'shardmill train' on this set, for label errors and the hardest records of the "
    "splits that it was not trained on, and for what it forgot of the one it was. Repeatable: each "
    "split is judged by the first run that was not trained on it.",
)
@EPOCH
@click.option(
    "--threshold",
    "thresholds",
    metavar="NAME=VALUE",
    multiple=True,
    help=f"Threshold of a check, or off to leave it out. Repeatable. Checks: {', '.join(CHECKS)}.",
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Shards to read in parallel.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def audit(
    directory: Place,
    out: Place | None,
    runs: tuple[Path, ...],
    epoch: str,
    thresholds: tuple[str, ...],
    workers: int | None,
    as_json: bool,
) -> None:
    """Look for faults of a set: bad images, copies across splits, leaks, wrong labels.

    DIR/audit.html shows the worst of each kind with pictures, DIR/audit.parquet has all, and
    DIR/ids/NAME.jsonl the ids of the records, which 'shardmill compact --remove' and 'shardmill
    preprocess --exclude-ids' take. The set is not changed, and the exit code is 0 whatever is
    found. Thresholds are in docs/curation.md and on the page.

    \b
    Examples:
      shardmill audit set
      shardmill audit set --run run --out look
      shardmill audit set --threshold blurred=0.02 --threshold outlier=off
      shardmill compact set --remove set-audit/ids/label-error.jsonl
    """
    from beam_jobs.audit.auditing import audit as look
    from beam_jobs.audit.output import output_folder, write_audit
    from cli.console import Bars, bar_if_long, native_noise_kept, print_json

    given = dict(map(_threshold, thresholds))
    folder = output_folder(directory, out)
    with contextlib.ExitStack() as stack:
        noise = stack.enter_context(native_noise_kept()) if runs else None
        bars = stack.enter_context(Bars(noise))
        predictions = _predictions(directory, runs, epoch, stack, bars) if runs else None
        result = look(
            directory,
            given,
            predictions,
            workers,
            lambda stage, done, total: bars.update_often(
                stage, done, total, "records" if stage == "measure" else "checks"
            ),
        )
        remarks = _remarks(result)
    with bar_if_long("write"):
        lists = write_audit(result, folder, remarks)
    if as_json:
        print_json(_as_json(result, folder, lists))
    else:
        _print(result, folder, remarks)


def _threshold(text: str) -> tuple[str, float | None]:
    from shard_format import UsageError

    name, _, value = text.partition("=")
    if value == "off":
        return name, None
    try:
        number = float(value)
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        raise UsageError(
            f"--threshold {text} is no name with a number. Write for instance blurred=0.02 or "
            "blurred=off."
        )
    return name, number


def _predictions(
    directory: Place,
    runs: tuple[Path, ...],
    epoch: str,
    stack: contextlib.ExitStack,
    bars: Bars,
) -> Predictions:
    from beam_jobs.audit.predictions import Predictions
    from cli.logs import quiet_tensorflow
    from foundation.extras import naming_extras
    from trainer.devices import require_backend

    require_backend()
    quiet_tensorflow()
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="shardmill-predictions-"))
    bars.update("load", 0, None, "", "TensorFlow and the model")
    with naming_extras():
        from inference.evaluation.predictions import predict_records

    def show(done: int, total: int) -> None:
        bars.update_often("predict", done, total, "records")

    made = predict_records(runs, directory, Path(folder), epoch, show)
    bars.finish("load")
    return Predictions(*made)


def _remarks(result: AuditResult) -> list[str]:
    """What was looked at, in sentences."""
    from foundation.wording import counted

    total = counted(result.finished.records, "record")
    rate = result.read / max(result.seconds, 1e-9)
    remarks = [
        f"{total} measured in {result.seconds:.1f} s ({rate:,.0f} records/s)."
        if result.read
        else f"{total}; the index has all that was needed, and no shard was read."
    ]
    if result.judged is None:
        remarks.append("Label errors and hard records need a model: pass --run RUN.")
    else:
        judged = counted(result.judged, "record")
        remarks += [
            f"{judged} judged by a model that was not trained on them.",
            "Of its training records its predictions say nothing; they are left out.",
        ]
    return remarks


def _as_json(result: AuditResult, folder: Place, lists: dict[str, Place]) -> dict[str, Any]:
    from beam_jobs.audit.output import PAGE, TABLE

    return {
        "directory": str(result.finished.directory),
        "records": result.finished.records,
        "read": result.read,
        "seconds": result.seconds,
        "judged": result.judged,
        "findings": {name: len(rows) for name, rows in result.findings.items()},
        "not_checked": result.not_applicable,
        "thresholds": result.thresholds,
        "page": str(folder / PAGE),
        "table": str(folder / TABLE),
        "lists": {name: str(place) for name, place in lists.items()},
    }


def _print(result: AuditResult, folder: Place, remarks: list[str]) -> None:
    from beam_jobs.audit.output import PAGE, TABLE
    from cli.console import print_table, say, table

    columns = ("check", "threshold", "findings")
    rows = table("Audit", *columns, "", right=columns[1:])
    for name, one in result.findings.items():
        rows.add_row(name, f"{result.thresholds[name]:g}", f"{len(one):,}", CHECKS[name].title)
    print_table(rows)
    say("\n".join(remarks))
    if result.not_applicable:
        names = textwrap.fill(", ".join(result.not_applicable), 66, break_on_hyphens=False)
        say(f"not checked  {textwrap.indent(names, ' ' * 13).strip()}")
    say(f"page         {folder / PAGE}\ntable        {folder / TABLE}")
