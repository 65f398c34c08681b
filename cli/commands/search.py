"""`shardmill search`: good options of a training, found by trials."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import ending
from cli.options import click_options
from cli.places import LOCAL, PLACE
from search.options import SearchOptions

if TYPE_CHECKING:
    from cli.console import Bars
    from search.plan import SearchPlan
    from search.trials import Trial

_SHOWN_TRIALS = 15
_FAILED = 3  # exit code: no trial was completed


@click.command()
@click.argument("places", metavar="[SET] SPACE", nargs=-1, required=True, type=PLACE)
@click.option(
    "--run-dir",
    type=LOCAL,
    metavar="DIR",
    help="Directory for the trials and the results (default: NAME-search next to NAME.yaml).",
)
@click_options(SearchOptions)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def search(places: tuple[Any, ...], run_dir: Path | None, as_json: bool, **values: Any) -> None:
    """Search for good options of a training.

    SPACE is a YAML file with options of 'shardmill train': with one value for all trials, a list of
    choices, or a range. SET may be in it too, as 'data'.

    \b
      data: set
      model: small_cnn
      epochs: 8
      optimizer: [adamw, sgd]
      learning-rate: {low: 1e-4, high: 1e-2, log: true}

    Every trial is a run of 'shardmill train' in a process and a directory of its own. Trials are
    compared by the best epoch of their validation (monitor: loss or accuracy), never by a test
    split. One that is hopeless ends early, one that fails is recorded, and the search continues.

    An interrupted search resumes when the same command is run again: completed trials are kept,
    those at work resume at their checkpoints. With another --trials it is extended.

    \b
    Exit codes: 0 done; 2 wrong usage; 3 no trial was completed, or the input is at fault;
    130 and 143 stopped by Ctrl-C or SIGTERM, with all trials checkpointed.

    \b
    Examples:
      shardmill search set space.yaml --trials 30
      shardmill search space.yaml --parallel 2 --pruner halving
      shardmill search space.yaml --method grid --run-dir searches/1
    """
    from cli.console import Bars, print_json
    from search.plan import default_directory, make_plan
    from search.plot import draw
    from search.searching import SearchStopped
    from search.searching import search as run_search
    from search.space_file import read_space
    from search.trials import PLOT, best_trial
    from trainer.launching.gpus import visible_gpus

    if len(places) > 2:
        raise click.UsageError("Pass one SPACE, or SET and SPACE.")
    space = read_space(str(places[-1]))
    if len(places) == 1 and space.data is None:
        raise click.UsageError(f"{places[0]} names no set. Add 'data: SET' to it, or pass SET.")
    data = places[0] if len(places) == 2 else PLACE.convert(space.data, None, None)
    directory = run_dir or default_directory(space.path)
    plan = make_plan(space, data, directory, SearchOptions(**values))
    program = (sys.executable, "-m", "cli.main", "train")
    try:
        with Bars() as bars:
            show = _SearchDisplay(bars, plan)
            trials = run_search(plan, program, visible_gpus(), show)
            show.finish()
    except SearchStopped as stopped:
        raise ending.stopped(stopped) from None
    draw(directory / PLOT, trials, space.parameters, _measure(plan))
    best = best_trial(trials)
    if as_json:
        print_json(_summary(plan, trials))
    else:
        _print(plan, trials)
    if best is None:
        raise SystemExit(_FAILED)


def _measure(plan: SearchPlan) -> str:
    return f"validation {plan.monitor}"


def _summary(plan: SearchPlan, trials: Sequence[Trial]) -> dict[str, Any]:
    from search.trials import PLOT, STATE, TABLE, TRIALS, best_trial

    best = best_trial(trials)
    return {
        "search": str(plan.directory / STATE),
        "table": str(plan.directory / TABLE),
        "plot": str(plan.directory / PLOT),
        "trials": len(trials),
        **_counts(trials),
        "monitor": plan.monitor,
        "best": best and best.number,
        "best_value": best and best.value,
        "best_options": best and dict(best.options),
        "best_run": best and str(plan.directory / TRIALS / best.name),
    }


def _counts(trials: Sequence[Trial]) -> dict[str, int]:
    states = ("completed", "pruned", "diverged", "failed")
    return {state: sum(trial.state == state for trial in trials) for state in states}


def _print(plan: SearchPlan, trials: Sequence[Trial]) -> None:
    from cli.console import say, stdout
    from foundation.wording import counted
    from search.plan import train_again
    from search.trials import LOGS, PLOT, TABLE, TRIALS, best_trial

    console = stdout()
    console.print(_table(plan, trials))
    console.print()
    counts = ", ".join(f"{count} {state}" for state, count in _counts(trials).items() if count)
    lines = [f"trials     {counted(len(trials), 'trial')}: {counts}"]
    lines += [
        f"           {trial.state} {trial.name}: {trial.reason}" for trial in _last_reasons(trials)
    ]
    best = best_trial(trials)
    if best is None:
        lines.append(f"best       none was completed; see {plan.directory / LOGS}")
    else:
        command = shlex.join(train_again(plan, best, Path("best-run")))
        lines.append(
            f"best       {plan.directory / TRIALS / best.name}, {_value(plan, best)} after epoch "
            f"{best.best_epoch}"
        )
        lines.append(f"again      {command}")
    lines.append(f"written    {plan.directory / TABLE}, {plan.directory / PLOT}")
    say("\n".join(lines))


def _last_reasons(trials: Sequence[Trial]) -> list[Trial]:
    """The last trials with different reasons."""
    return [*{trial.reason: trial for trial in trials if trial.reason}.values()][-3:]


def _table(plan: SearchPlan, trials: Sequence[Trial]) -> Any:
    """The best trials, with their options in one column."""
    from cli.console import table
    from foundation.wording import duration
    from search.space import shown
    from search.trials import ranked

    names = [parameter.name for parameter in plan.space.parameters]
    title = f"Trials by {_measure(plan)}"
    if len(trials) > _SHOWN_TRIALS:
        title += f", {_SHOWN_TRIALS} of {len(trials)}"
    right = ("rank", "trial", plan.monitor, "epochs", "time")
    columns = ("rank", "trial", "state", plan.monitor, "epochs", "time")
    rows = table(title, *columns, "options", right=right)
    for column in rows.columns[: len(columns)]:
        column.no_wrap = True  # only options are folded
    for rank, trial in enumerate(ranked(trials)[:_SHOWN_TRIALS], 1):
        rows.add_row(
            str(rank) if trial.state == "completed" else "",
            trial.name,
            trial.state,
            _value(plan, trial, named=False),
            str(len(trial.values)),
            duration(trial.seconds),
            shown({name: trial.options[name] for name in names if name in trial.options}),
        )
    return rows


def _value(plan: SearchPlan, trial: Trial, *, named: bool = True) -> str:
    if trial.value is None:
        return ""
    number = f"{trial.value:.4f}" if trial.is_loss else f"{trial.value:.2%}"
    return f"{_measure(plan)} {number}" if named else number


class _SearchDisplay:
    """Draws the events of a search: a bar of all trials, and one of each process."""

    def __init__(self, bars: Bars, plan: SearchPlan) -> None:

        self._bars, self._plan = bars, plan
        self._trials: dict[int, Trial] = {}
        self._stages: set[str] = set()
        self._stopping = ""

    def __call__(self, event: Any) -> None:
        from search.events import SearchBegun, Stopping, Waiting

        if isinstance(event, Waiting):
            self._bars.note("trials of a search that was killed write their checkpoints; waiting")
            return
        if isinstance(event, SearchBegun):
            self._trials = {trial.number: trial for trial in event.trials}
            self._draw()
            return
        if isinstance(event, Stopping):
            self._stopping = "; stopping, Ctrl-C ends it at once"
            self._draw()
            return
        trial = event.trial
        self._trials[trial.number] = trial
        if trial.state != "running":
            self._bars.note(self._line(trial))
        self._draw_slot(event.slot, trial)
        self._draw()

    def _draw_slot(self, slot: int, trial: Trial) -> None:
        from search.space import shown

        stage, epochs = f"process {slot + 1}", self._plan.epochs(trial)
        measured = f", {_value(self._plan, trial)}" if trial.values else ""
        note = f"trial {trial.name}, epoch {len(trial.values)}/{epochs}{measured}"
        self._bars.update(stage, 0, None, "", f"{note}, {shown(trial.options)}")
        self._stages.add(stage)

    def finish(self) -> None:
        """All trials have ended."""
        for stage in self._stages:
            self._bars.finish(stage)

    def _line(self, trial: Trial) -> str:
        from search.space import shown

        reached = f", {_value(self._plan, trial)}" if trial.values else ""
        why = f": {trial.reason}" if trial.reason else ""
        return f"trial {trial.name} {trial.state}{reached} ({shown(trial.options)}){why}"

    def _draw(self) -> None:
        from search.trials import best_trial

        ended = [trial for trial in self._trials.values() if trial.state != "running"]
        best, total = best_trial(ended), self._plan.num_trials
        parts = [f"{len(ended)} of {total} trials{self._left(ended)}{self._stopping}"]
        if best is not None:
            parts.append(f"best {best.name}: {_value(self._plan, best)}")
        self._bars.update("search", len(ended), total, "", "; ".join(parts))

    def _left(self, ended: list[Trial]) -> str:
        """About how long the rest takes, once a trial has ended."""
        from foundation.wording import duration

        rest = self._plan.num_trials - len(ended)
        if not ended or not rest:
            return ""
        seconds = sum(trial.seconds for trial in ended) / len(ended)
        return f", about {duration(seconds * rest / self._plan.options.parallel)} left"
