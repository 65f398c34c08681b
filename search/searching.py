"""A search from start to end: proposals, processes of 'shardmill train', early ends, the record.

One process decides and waits; the trials know nothing of each other. What they measure is read from
the history.json of their run directories, so that a trial is a run like any other.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import time
from collections.abc import Sequence

from foundation.errors import InputError
from foundation.processes.children import ChildProcess, wait_for_all
from foundation.wording import counted
from search.events import OnEvent, SearchBegun, Stopping, TrialChanged, Waiting
from search.plan import SearchPlan
from search.processes import (
    GRACE_SECONDS,
    INTERRUPTED,
    divided_cores,
    environment_of,
    failure_reason,
)
from search.proposals import METHODS
from search.pruners import PRUNERS
from search.trials import SearchDir, Trial
from trainer.checkpointing.best import score
from trainer.checkpointing.run_dir import HISTORY
from trainer.checkpointing.termination import Termination
from trainer.errors import TrainingError
from trainer.events import EpochDone

_LOOK_SECONDS = 0.2
# Failures before any trial trained an epoch, after which the mistake is taken to be in all of them.
_FIRST_FAILURES = 3
_RESTARTS = 3  # of a trial that a signal ended, which nobody here has sent


class SearchStopped(TrainingError):
    """SIGTERM or Ctrl-C has come: the trials are checkpointed, the same command continues them.

    Args:
        number: The signal.
        trials: All trials.

    Attributes:
        exit_code: What shells report of a process that the signal ended.
    """

    def __init__(self, number: signal.Signals, trials: Sequence[Trial]) -> None:
        self.exit_code = 128 + number
        name = "Ctrl-C" if number == signal.SIGINT else number.name
        running = sum(trial.state == "running" for trial in trials)
        super().__init__(
            f"stopped by {name} after {counted(len(trials) - running, 'trial')}; {running} begun, "
            "to be resumed at the checkpoint. The same command resumes the search."
        )


def search(
    plan: SearchPlan, program: Sequence[str], gpus: Sequence[str], on_event: OnEvent
) -> list[Trial]:
    """All trials of a search, those of earlier runs in its directory included.

    Args:
        plan: What to do.
        program: The command that trains, before the arguments of `SearchPlan.arguments`.
        gpus: What CUDA calls the GPUs that may be used.
        on_event: Function called in this thread with every event.

    Raises:
        InputError: The directory holds another search, is in use, or cannot be written.
        TrainingError: The first trials all failed.
        SearchStopped: SIGTERM or Ctrl-C has come, and the trials are checkpointed.
        KeyboardInterrupt: Ctrl-C came twice.
    """
    place = SearchDir(plan.directory, plan.identity)
    with place.held(lambda: on_event(Waiting())) as lock:
        return _Search(plan, program, gpus, on_event, place, lock).run()


@dataclasses.dataclass
class _Running:
    """A trial at work.

    Attributes:
        number: Number of the trial.
        process: Process of the trial; None where it ended before the search was run again.
        slot: Which of the parallel processes.
        seconds: Seconds of its earlier processes.
    """

    number: int
    process: ChildProcess | None
    slot: int
    seconds: float


class _Search:
    """The state of one run of a search; see `search`."""

    def __init__(
        self,
        plan: SearchPlan,
        program: Sequence[str],
        gpus: Sequence[str],
        on_event: OnEvent,
        place: SearchDir,
        lock: int,
    ) -> None:
        self._plan, self._place, self._lock = plan, place, lock
        self._program, self._gpus, self._on_event = program, gpus, on_event
        self._trials = place.read()
        again = {"running", "failed"} if plan.options.retry_failed else {"running"}
        self._waiting = [trial.number for trial in self._trials if trial.state in again]
        self._restarts: dict[int, int] = {}
        self._cores = divided_cores(plan.options.parallel)
        self._running: list[_Running] = []

    def run(self) -> list[Trial]:
        self._place.write(self._trials)
        self._on_event(SearchBegun(tuple(self._trials)))
        with Termination(lambda _: self._on_event(Stopping())) as termination:
            termination.begin()
            try:
                while self._fill(asked=termination.asked is not None):
                    time.sleep(_LOOK_SECONDS)
                    for running in [*self._running]:
                        if termination.asked and running.process:
                            running.process.stop()
                        self._look(running)
            except KeyboardInterrupt:
                for running in self._running:
                    if running.process is not None:
                        running.process.kill()
                raise
            except Exception:
                self._stop_all()
                raise
            if termination.asked and not self._is_over():
                raise SearchStopped(termination.asked, self._trials)
        return self._trials

    def _fill(self, *, asked: bool) -> bool:
        """Starts trials in free slots; False when there is nothing left to wait for."""
        while not asked and len(self._running) < self._plan.options.parallel:
            trial = self._next()
            if trial is None:
                break
            self._begin(trial)
        return bool(self._running)

    def _next(self) -> Trial | None:
        """The next trial: one that was begun, or a new one."""
        if self._waiting:
            return self._trials[self._waiting.pop(0)]
        self._abort_if_all_failed()
        number, options = len(self._trials), self._plan.options
        if number >= self._plan.num_trials:
            return None
        propose = METHODS[options.method]
        values = propose(self._plan.space, options.seed, number, self._trials)
        if values is None:
            return None
        trial = Trial(number, values, is_loss=self._plan.monitor == "loss")
        self._trials.append(trial)
        return trial

    def _is_over(self) -> bool:
        started = len(self._trials) >= self._plan.num_trials
        return started and not any(trial.state == "running" for trial in self._trials)

    def _abort_if_all_failed(self) -> None:
        """Ends the search where all trials seem to have the same mistake.

        Raises:
            TrainingError: None has trained an epoch, and some have failed.
        """
        failed = [trial for trial in self._trials if trial.state == "failed"]
        if len(failed) >= _FIRST_FAILURES and not any(trial.values for trial in self._trials):
            raise TrainingError(
                f"The first {len(failed)} trials failed, the last one with: {failed[-1].reason} "
                f"(see {self._place.log(failed[-1])}). Fix that and run the same command again."
            )

    def _begin(self, trial: Trial) -> None:
        """Starts a trial, or continues it at its checkpoint."""
        if trial.state == "failed":
            trial = dataclasses.replace(trial, state="running", reason="")
        self._trials[trial.number] = dataclasses.replace(trial, values=())
        self._place.write(self._trials)
        slots = {running.slot for running in self._running}
        slot = min(set(range(self._plan.options.parallel)) - slots)
        running = _Running(trial.number, None, slot, trial.seconds)
        self._running.append(running)
        self._look(running)  # what an earlier process has measured may end it
        if running not in self._running:
            return
        running.process = ChildProcess(
            [*self._program, *self._plan.arguments(trial.options, self._place.run_dir(trial))],
            self._place.log(trial),
            environment_of(slot, self._plan.options.parallel, self._gpus),
            cores=self._cores[slot],
            kept_open=[self._lock],
            grace=GRACE_SECONDS,
        )
        self._on_event(TrialChanged(self._trials[trial.number], slot))

    def _look(self, running: _Running) -> None:
        """Takes what a trial has measured since the last look, and its end."""
        code = running.process.poll() if running.process else None  # before its last epochs
        trial = self._trials[running.number]
        history = self._measured(trial) if trial.state == "running" else []
        for value in history[len(trial.values) :]:
            trial = dataclasses.replace(trial, values=(*trial.values, value))
            self._trials[running.number] = trial
            self._on_event(TrialChanged(trial, running.slot))
            if self._is_hopeless(trial):
                self._trials[running.number] = dataclasses.replace(trial, state="pruned")
                break
        pruned = self._trials[running.number].state == "pruned"
        if pruned and running.process:
            running.process.stop()
        if code is not None or (pruned and running.process is None):
            self._end(running, code)

    def _measured(self, trial: Trial) -> list[float]:
        """The values of all epochs of a trial.

        Raises:
            InputError: Its history is damaged.
        """
        path = self._place.run_dir(trial) / HISTORY
        try:
            epochs = json.loads(path.read_bytes())
            scores = [score(EpochDone(**epoch), self._plan.monitor) for epoch in epochs]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"{path} is not the history of a run ({error}). Restore it, or delete "
                f"{path.parent} to run the trial from its beginning."
            ) from error
        sign = -1 if trial.is_loss else 1
        return [sign * value for value in scores if value is not None]

    def _is_hopeless(self, trial: Trial) -> bool:
        epochs = self._plan.epochs(trial)
        others = [other for other in self._trials if other.number != trial.number]
        prune = PRUNERS[self._plan.options.pruner]
        return len(trial.values) < epochs and prune(trial.costs, others, epochs)

    def _end(self, running: _Running, code: int | None) -> None:
        """Records the end of a trial's process, and has it run again if a signal ended it."""
        self._running.remove(running)
        trial, process = self._trials[running.number], running.process
        if process is not None:
            trial = dataclasses.replace(
                trial, seconds=running.seconds + time.monotonic() - process.started
            )
        if trial.state == "running" and code in INTERRUPTED:
            restarts = self._restarts[trial.number] = self._restarts.get(trial.number, 0) + 1
            if restarts <= _RESTARTS:
                self._waiting.append(trial.number)
                self._keep(trial)
                return
        if trial.state == "running" and code == 0 and trial.values:
            trial = dataclasses.replace(trial, state="completed")
        elif trial.state == "running":
            reason = failure_reason(process, code or 0) if process else ""
            # What `trainer.epochs` says of a loss, or a loss scale, that is not finite.
            state = "diverged" if reason.startswith("The loss") else "failed"
            trial = dataclasses.replace(trial, state=state, reason=reason)
        self._keep(trial)
        self._on_event(TrialChanged(trial, running.slot))

    def _keep(self, trial: Trial) -> None:
        self._trials[trial.number] = trial
        self._place.write(self._trials)

    def _stop_all(self) -> None:
        """Has all trials write checkpoints and end, after an error."""
        processes = [running.process for running in self._running if running.process is not None]
        for process in processes:
            process.stop()
        wait_for_all(processes)
