"""Training runs side by side: what their directories tell, read without TensorFlow."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from foundation.config_file import key_of
from foundation.errors import InputError
from foundation.processes.locks import is_locked
from foundation.wording import duration
from search.space import shown_value
from trainer import EpochDone, TrainOptions
from trainer.checkpointing.best import best_epoch
from trainer.checkpointing.run_dir import HISTORY, RUN
from trainer.checkpointing.run_lock import NAME as LOCK

_DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(TrainOptions)
    if field.default is not dataclasses.MISSING
}
_UNKNOWN = "-"


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A run, as its directory describes it.

    Attributes:
        name: Its path in the folder that all of the compared runs are in.
        directory: Directory of the run.
        state: "done", "at work", "stopped", or "damaged", of which nothing else is known.
        damage: What is wrong with a damaged one.
        facts: Options by flag, then versions, devices and root hash.
        epochs: Epochs that were asked for.
        history: Those that are done.
        best: The best one by --monitor; None without validation.
    """

    name: str
    directory: Path
    state: str
    damage: str = ""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    epochs: int = 0
    history: tuple[EpochDone, ...] = ()
    best: EpochDone | None = None

    @functools.cached_property
    def measures(self) -> dict[str, float | None]:
        """Costs, totals of all epochs, and medians of rates; None where an epoch has no value."""
        totals = {
            name: self._of_epochs(name, math.fsum) for name in ("wall_seconds", "cpu_seconds")
        }
        # Not the mean: the first epoch of a process traces the graph too.
        names = ("examples_per_second", "tokens_per_second", "input_wait")
        return totals | {name: self._of_epochs(name, statistics.median) for name in names}

    def _of_epochs(self, name: str, summary: Any) -> float | None:
        values = [getattr(epoch, name) for epoch in self.history]
        return summary(values) if values and None not in values else None

    @property
    def cells(self) -> tuple[str, ...]:
        """State, epochs, best epoch with loss and accuracy, wall, CPU, rate and input wait."""
        loss = accuracy = None
        if self.best is not None:
            loss, accuracy = self.best.val_loss, self.best.val_accuracy
            accuracy = self.best.val_token_accuracy if accuracy is None else accuracy
        rate, unit = self.measures["tokens_per_second"], " tokens"
        if rate is None:
            rate, unit = self.measures["examples_per_second"], ""
        return (
            self.state,
            f"{len(self.history)}/{self.epochs}" if self.epochs else _UNKNOWN,
            _shown(self.best and self.best.epoch, str),
            _shown(loss, "{:.4f}".format),
            _shown(accuracy, "{:.1%}".format),
            *(_shown(self.measures[name], duration) for name in ("wall_seconds", "cpu_seconds")),
            _shown(rate, f"{{:,.0f}}{unit}".format),
            _shown(self.measures["input_wait"], "{:.1%}".format),
        )


def _shown(value: Any, wording: Any) -> str:
    return _UNKNOWN if value is None else wording(value)


def read_runs(places: Sequence[Path]) -> list[ComparedRun]:
    """The runs in some folders, each once; a head that `--head-epochs` trained belongs to its run.

    Args:
        places: Directories of runs, or folders with such at any depth.

    Raises:
        InputError: There is no run in one of them.
    """
    directories = dict.fromkeys(run for place in places for run in _runs_in(place))
    shared = Path(os.path.commonpath(directories))
    if shared in directories:
        shared = shared.parent
    return [_read_run(str(run.relative_to(shared)), run) for run in directories]


def _runs_in(place: Path) -> list[Path]:
    advice = "Pass the --run-dir of 'shardmill train', or a folder that has some in it."
    if not place.is_dir():
        raise InputError(f"No directory {place}. {advice}")
    directories = []
    for folder, below, files in os.walk(place):
        below.sort()
        if RUN in files:
            below.clear()
            directories.append(Path(folder).resolve())
    if not directories:
        raise InputError(f"No run in {place}: no folder of it has a {RUN}. {advice}")
    return directories


def _read_run(name: str, directory: Path) -> ComparedRun:
    path = directory / RUN
    try:
        content = json.loads(path.read_bytes())
        facts, epochs = dict(_facts(content)), int(content["options"]["epochs"])
        monitor = content["options"].get("monitor", _DEFAULTS["monitor"])
        path = directory / HISTORY
        history = _history(path.read_bytes()) if path.exists() else ()
    except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        return ComparedRun(name, directory, "damaged", f"{path.name}: {error!r}")
    state = "stopped"
    if "final" in content:
        state = "done"
    elif is_locked(directory / LOCK):
        state = "at work"
    best = best_epoch(history, monitor)
    return ComparedRun(name, directory, state, "", facts, epochs, history, best)


def _facts(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What may differ between runs; a run of an earlier version had the defaults of later options.

    Where a run writes is no fact about it.
    """
    identity, versions = content["identity"], content["versions"]
    options = {**_DEFAULTS, **content["options"], "precision": identity["precision"]}
    for option, value in options.items():
        if option != "run_dir":
            yield key_of(option), value
    for package, version in versions.items():
        yield f"version of {package}", version
    yield "devices", ", ".join(content.get("devices", ()))
    yield "root hash", identity["root_hash"]


def _history(text: bytes) -> tuple[EpochDone, ...]:
    """Finished epochs.

    Raises:
        Exception: It is not what a training writes.
    """
    history = tuple(EpochDone(**epoch) for epoch in json.loads(text))
    if [epoch.epoch for epoch in history] != list(range(1, len(history) + 1)):
        raise ValueError("its epochs are not numbered from 1 on")
    for epoch in history:
        for name, value in dataclasses.asdict(epoch).items():
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} of epoch {epoch.epoch} is {value}")
    return history


def differences(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """Facts that are not the same in all runs that could be read, with the value in every run."""
    whole = [run.facts for run in runs if run.facts]
    names = dict.fromkeys(name for facts in whole for name in facts)
    return {
        name: [shown_value(run.facts[name]) if name in run.facts else _UNKNOWN for run in runs]
        for name in names
        if any(facts.get(name) != whole[0].get(name) for facts in whole)
    }
