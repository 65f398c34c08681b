"""`shardmill runs`: training runs side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.places import FILE, LOCAL
from foundation.storage import Place

if TYPE_CHECKING:
    from cli.compared_runs import ComparedRun

_PAGE = "runs.html"
_COLUMNS = ("state", "epochs", "best", "loss", "accuracy", "wall", "CPU", "per second", "waits")
_NAME_WIDTH, _VALUE_WIDTH = 40, 30
# Title of a chart -> fields of an epoch, the first of which a run has is drawn.
_CHARTS = {
    "Training loss": ("loss",),
    "Validation loss": ("val_loss",),
    "Training accuracy": ("accuracy", "token_accuracy"),
    "Validation accuracy": ("val_accuracy", "val_token_accuracy"),
    "Training F1": ("f1",),
    "Validation F1": ("val_f1",),
}


@click.command()
@click.argument("places", metavar="DIR...", nargs=-1, required=True, type=LOCAL)
@click.option(
    "--out", type=FILE, metavar="FILE", show_default=f"DIR/{_PAGE}", help="HTML page to write."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def runs(places: tuple[Path, ...], out: Place | None, as_json: bool) -> None:
    """Compare training runs: learning curves, options that differ, cost.

    DIR is the directory of a run, or a folder with such at any depth, as a search leaves it. The
    page is one self-contained HTML file without scripts. Runs at work are shown as far as they are.

    \b
    Examples:
      shardmill runs runs
      shardmill runs runs/1 runs/2 --out comparison.html
      shardmill runs space-search --json
    """
    from cli.compared_runs import differences, read_runs
    from cli.console import bar_if_long, print_json
    from cli.page_file import write_page

    page = places[0] / _PAGE if out is None else out
    with bar_if_long("runs"):
        compared = read_runs(places)
        differing = differences(compared)
        values = {"runs": compared, "differences": differing, "columns": [*_COLUMNS]}
        write_page("runs.html", values | {"drawn": _drawn(compared)}, page, "--out")
    if as_json:
        shown = [_as_json(run) for run in compared]
        print_json({"page": str(page), "runs": shown, "differences": differing})
    else:
        _print(compared, differing, page)


def _drawn(compared: Sequence[ComparedRun]) -> list[Any]:
    """The charts that any run has values for."""
    from beam_jobs.report.charts import epoch_chart

    best = [run.best.epoch if run.best else None for run in compared]
    charts = []
    for title, fields in _CHARTS.items():
        measured = [
            [
                next((value for f in fields if (value := getattr(epoch, f)) is not None), None)
                for epoch in run.history
            ]
            for run in compared
        ]
        wording = "{:.4g}".format if "loss" in title else _percent
        charts.append(epoch_chart(title, measured, best, wording))
    return [chart for chart in charts if chart is not None]


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _as_json(run: ComparedRun) -> dict[str, Any]:
    best = run.best and dataclasses.asdict(run.best)
    return {
        "run": run.name,
        "directory": str(run.directory),
        "state": run.state,
        "damage": run.damage,
        "epochs": run.epochs,
        "epochs_done": len(run.history),
        "best": best,
        **run.measures,
    }


def _print(
    compared: Sequence[ComparedRun], differing: Mapping[str, Sequence[str]], page: Place
) -> None:
    from cli.console import print_table, say, table
    from foundation.wording import shortened, visible

    names = [shortened(visible(run.name), _NAME_WIDTH) for run in compared]
    rows = table("Runs", "run", *_COLUMNS, right=_COLUMNS[1:])
    for column in rows.columns[1:]:
        column.no_wrap = True  # only names are folded
    for name, run in zip(names, compared, strict=True):
        rows.add_row(name, *run.cells)
    print_table(rows)
    if differing:
        rows = table("What differs", "run", "")
        for number, name in enumerate(names):
            facts = [
                f"{fact} {shortened(visible(values[number]), _VALUE_WIDTH)}"
                for fact, values in differing.items()
            ]
            rows.add_row(name, ", ".join(facts))
        print_table(rows)
    for run in compared:
        if run.damage:
            say(f"damaged    {run.directory}: {visible(run.damage)}")
    say(f"page       {page}")
