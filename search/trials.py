"""The trials of a search, and the file that keeps them.

SEARCH/
  search.json          space, method, seed, and every trial; replaced whole after each change
  trials.csv           the same trials as a table
  search.png           their values
  trials/NNN/          the run directory of a trial, as of 'shardmill train'
  logs/NNN.log         what its process printed

search.json is the only state: Optuna is given the trials anew for every proposal.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from foundation.config_file import key_of
from foundation.errors import InputError, file_error
from foundation.processes.locks import try_lock
from trainer.checkpointing.run_dir import write_json

STATE = "search.json"
TABLE = "trials.csv"
PLOT = "search.png"
TRIALS = "trials"
LOGS = "logs"
STATES = ("running", "completed", "pruned", "diverged", "failed")
_LOCK = ".lock"
_TRIALS_LOCK = ".trials.lock"
_LOOK_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training of a search.

    Attributes:
        number: Counted from 0.
        options: Those that vary, by field of `TrainOptions`.
        state: "running" (also between two runs of the search), "completed", "pruned", "diverged" or
            "failed".
        values: The measure of the validation after every epoch; of a pruned trial up to the one
            after which that was decided.
        is_loss: Whether lower values are better.
        seconds: Wall time of its processes.
        reason: Last line of the log of a trial that diverged or failed.
    """

    number: int
    options: Mapping[str, Any]
    state: str = "running"
    values: tuple[float, ...] = ()
    is_loss: bool = True
    seconds: float = 0.0
    reason: str = ""

    @property
    def costs(self) -> tuple[float, ...]:
        """The values such that lower ones are better."""
        return self.values if self.is_loss else tuple(-value for value in self.values)

    @property
    def best_epoch(self) -> int | None:
        """The epoch of the best value, counted from 1, of equal ones the first."""
        return self.costs.index(min(self.costs)) + 1 if self.values else None

    @property
    def value(self) -> float | None:
        """The best value."""
        return self.values[self.best_epoch - 1] if self.best_epoch else None

    @property
    def name(self) -> str:
        """Name of its directory and of its log."""
        return f"{self.number:03d}"


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """The completed trial with the best value, of equal ones the first; None if there is none."""
    completed = [trial for trial in trials if trial.state == "completed" and trial.values]
    return min(completed, key=lambda trial: min(trial.costs), default=None)


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Completed trials from the best to the worst, then the pruned ones, then the others."""
    order = ("completed", "pruned", "running", "diverged", "failed")

    def key(trial: Trial) -> tuple[int, float, int]:
        return order.index(trial.state), min(trial.costs, default=0.0), trial.number

    return sorted(trials, key=key)


class SearchDir:
    """The directory of a search.

    Args:
        path: Path of the directory.
        identity: What must be equal for a search to be continued, as JSON can hold it.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        # Through JSON, so that a tuple equals the list it was stored as.
        self._identity = json.loads(json.dumps(identity))

    def run_dir(self, trial: Trial) -> Path:
        """Run directory of a trial."""
        return self.path / TRIALS / trial.name

    def log(self, trial: Trial) -> Path:
        """Log file of a trial."""
        return self.path / LOGS / f"{trial.name}.log"

    @contextlib.contextmanager
    def held(self, on_wait: Callable[[], None]) -> Iterator[int]:
        """Holds the directory; yields a file descriptor that processes of trials inherit.

        Where a search was killed, its trials may still write a checkpoint: they hold the lock
        behind that descriptor for as long as they live.

        Args:
            on_wait: Function called once if there are such trials.

        Raises:
            InputError: Another search uses the directory, or it cannot be written, or holds
                something else.
        """
        try:
            self._require_free()
            (self.path / LOGS).mkdir(parents=True, exist_ok=True)
            (self.path / TRIALS).mkdir(exist_ok=True)
            files = [open(self.path / name, "a") for name in (_LOCK, _TRIALS_LOCK)]
            is_ours = try_lock(files[0])
        except OSError as error:
            raise file_error(error, str(self.path), resumes=False) from None
        with files[0], files[1] as of_trials:
            if not is_ours:
                raise InputError(
                    f"Another search is running in {self.path}. Wait for it to end, or pass "
                    "another --run-dir."
                )
            if not try_lock(of_trials):
                on_wait()
                while not try_lock(of_trials):
                    time.sleep(_LOOK_SECONDS)
            yield of_trials.fileno()

    def _require_free(self) -> None:
        if self.path.is_dir() and not (self.path / STATE).exists():
            own = {_LOCK, _TRIALS_LOCK, LOGS, TRIALS}
            if any(entry.name not in own for entry in self.path.iterdir()):
                raise InputError(
                    f"{self.path} holds other files and no {STATE}. Pass another --run-dir, new or "
                    "empty."
                )

    def read(self) -> list[Trial]:
        """The trials so far.

        Raises:
            InputError: The directory holds another search, or a file that is damaged.
        """
        path = self.path / STATE
        if not path.exists():
            return []
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            before, trials = content["identity"], [_trial(each) for each in content["trials"]]
            if [trial.number for trial in trials] != list(range(len(trials))):
                raise ValueError("its trials are not numbered from 0 on")
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{path} is not the state of a search ({type(error).__name__}: {error}). Restore "
                "it, or pass another --run-dir."
            ) from error
        if before != self._identity:
            # Nothing was learnt yet that another space would lose.
            if all(trial.state == "failed" and not trial.values for trial in trials):
                return []
            raise InputError(
                f"{self.path} holds another search: {'; '.join(_changes(before, self._identity))}. "
                "Pass another --run-dir for a new search, or the old values to continue it."
            )
        for trial in trials:
            if unknown := sorted(trial.options.keys() - self._identity["space"].keys()):
                raise InputError(
                    f"Trial {trial.name} in {path} has options that the space does not have: "
                    f"{', '.join(unknown)}. Restore the file, or pass another --run-dir."
                )
        return trials

    def write(self, trials: Sequence[Trial]) -> None:
        """Replaces search.json and trials.csv.

        Raises:
            InputError: They cannot be written.
        """
        best = best_trial(trials)
        content = {
            "identity": self._identity,
            "best": best and best.number,
            "trials": [_as_json(trial) for trial in trials],
        }
        try:
            write_json(self.path / STATE, content)
            self._write_table(trials)
        except OSError as error:
            raise file_error(error, str(self.path)) from error

    def _write_table(self, trials: Sequence[Trial]) -> None:
        names = list(dict.fromkeys(name for trial in trials for name in trial.options))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        head = ("trial", "state", "value", "best_epoch", "epochs", "seconds")
        writer.writerow([*head, *(key_of(name) for name in names), "reason"])
        for trial in trials:
            row = (trial.number, trial.state, trial.value, trial.best_epoch, len(trial.values))
            options = [trial.options.get(name) for name in names]
            writer.writerow([*row, round(trial.seconds, 1), *options, trial.reason])
        temporary = self.path / f"{TABLE}.tmp"
        temporary.write_text(text.getvalue(), encoding="utf-8")
        os.replace(temporary, self.path / TABLE)


def _as_json(trial: Trial) -> dict[str, Any]:
    further = {"value": trial.value, "best_epoch": trial.best_epoch}
    return {**dataclasses.asdict(trial), **further, "run_dir": f"{TRIALS}/{trial.name}"}


def _trial(stored: Mapping[str, Any]) -> Trial:
    fields = [field.name for field in dataclasses.fields(Trial)]
    trial = Trial(**{name: stored[name] for name in fields})
    kinds: dict[str, Any] = {"number": int, "options": dict, "state": str, "values": list}
    kinds |= {"is_loss": bool, "seconds": (int, float), "reason": str}
    for name, kind in kinds.items():
        value = getattr(trial, name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{name} of a trial is {value!r}")
    if trial.state not in STATES or trial.number < 0 or trial.seconds < 0:
        raise ValueError(f"trial {trial.number} is {trial.state!r} after {trial.seconds} seconds")
    scalars = (bool, int, float, str, type(None))
    if not all(isinstance(value, scalars) for value in trial.options.values()):
        raise ValueError(f"options of trial {trial.number} are {trial.options!r}")
    if not all(type(value) in (int, float) for value in trial.values):
        raise ValueError(f"values of trial {trial.number} are {trial.values!r}")
    return dataclasses.replace(trial, values=tuple(trial.values))


def _changes(before: Any, now: Mapping[str, Any]) -> Iterator[str]:
    """What differs between two searches: the options of the space by name, then the rest."""
    if not isinstance(before, dict):
        yield "it has no identity"
        return
    pairs = [(before, now, [name for name in now if name != "space"])]
    old_space, new_space = before.get("space"), now["space"]
    if not isinstance(old_space, dict):
        yield "it has no space"
        return
    pairs.append((old_space, new_space, sorted({*old_space, *new_space})))
    for old, new, names in pairs:
        for name in names:
            if old.get(name) != new.get(name) or (name in old) != (name in new):
                was, now_is = (each.get(name, "not given") for each in (old, new))
                yield f"{key_of(name)} was {was!r}, is {now_is!r}"
