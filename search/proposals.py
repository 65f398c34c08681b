"""Which options the next trial has: a function of the seed, its number, and the trials before.

Nothing is remembered between two proposals, so that a search that was killed proposes what it would
have proposed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foundation.errors import InputError, UsageError
from search.space import MAX_GRID, Space, Value
from search.trials import STATE, Trial

Values = dict[str, Value]
# called with (space, seed, number of the trial, all trials so far); None: there are no further ones
Propose = Callable[[Space, int, int, Sequence[Trial]], Values | None]

_STARTUP_TRIALS = 8  # before the first that learns from others; TPE needs some of both kinds
_ATTEMPTS = 50  # to draw options that no trial has
_MAX_LISTED = 100_000  # combinations that are looked through for one that is left


def _from_grid(space: Space, seed: int, number: int, trials: Sequence[Trial]) -> Values | None:
    return next(itertools.islice(space.grid(), number, None), None)


def _random(space: Space, seed: int, number: int, trials: Sequence[Trial]) -> Values | None:
    from optuna.samplers import RandomSampler

    return _new(space, seed, number, trials, lambda drawn: RandomSampler(seed=drawn), [])


def _bayesian(space: Space, seed: int, number: int, trials: Sequence[Trial]) -> Values | None:
    from optuna.samplers import TPESampler

    def sampler(drawn: int) -> Any:
        # A trial that still runs counts as a bad one, so that parallel trials differ.
        return TPESampler(seed=drawn, n_startup_trials=_STARTUP_TRIALS, constant_liar=True)

    return _new(space, seed, number, trials, sampler, trials)


METHODS: dict[str, Propose] = {"bayesian": _bayesian, "random": _random, "grid": _from_grid}


def num_trials(space: Space, method: str, asked: int) -> int:
    """How many trials a search has.

    Args:
        space: What is searched.
        method: One of METHODS.
        asked: Number of trials of a method that has no number of its own.

    Raises:
        UsageError: A range has no number of points for a grid, or the grid is too large.
    """
    if method == "grid":
        count = sum(1 for _ in itertools.islice(space.grid(), MAX_GRID + 1))
        if count > MAX_GRID:
            raise UsageError(
                f"The grid of {space.path} has more than {MAX_GRID} trials. Give its ranges fewer "
                "'points', or use --method random or bayesian."
            )
        return count
    size = space.size
    if size is None or size > _MAX_LISTED:
        return asked
    return min(asked, sum(1 for _ in space.combinations()))


def _new(
    space: Space,
    seed: int,
    number: int,
    trials: Sequence[Trial],
    sampler: Callable[[int], Any],
    known: Sequence[Trial],
) -> Values | None:
    """Options that no trial has, drawn by a sampler that knows some trials."""
    import numpy as np

    had = {_key(trial.options) for trial in trials}
    for attempt in range(_ATTEMPTS):
        drawn = np.random.SeedSequence([seed, number, attempt]).generate_state(1)
        values = _drawn(space, sampler(int(drawn[0])), known)
        if _key(values) not in had:
            return values
    if space.size is None:
        raise UsageError(
            f"No new options are found in {space.path} after {len(had)} trials. Widen a range."
        )
    left = itertools.islice(space.combinations(), _MAX_LISTED)
    return next((values for values in left if _key(values) not in had), None)


def _drawn(space: Space, sampler: Any, known: Sequence[Trial]) -> Values:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=sampler)  # minimizes
    for trial in known:
        if trial.state != "failed":  # says nothing of its options
            study.add_trial(_frozen(space, trial))
    drawn = study.ask({each.name: each.distribution for each in space.parameters}).params
    values: Values = {}
    for parameter in space.parameters:
        if parameter.applies(values):
            values[parameter.name] = drawn[parameter.name]
    return values


def _frozen(space: Space, trial: Trial) -> Any:
    """A trial as Optuna has it."""
    from optuna.trial import TrialState, create_trial

    distributions = {
        each.name: each.distribution for each in space.parameters if each.name in trial.options
    }
    states = {"completed": TrialState.COMPLETE, "diverged": TrialState.COMPLETE}
    states |= {"pruned": TrialState.PRUNED, "running": TrialState.RUNNING}
    costs = trial.costs
    worst = {"diverged": math.inf, "completed": min(costs, default=math.inf)}
    try:
        return create_trial(
            state=states[trial.state],
            value=worst.get(trial.state),
            params=trial.options,
            distributions=distributions,
            intermediate_values={epoch: cost for epoch, cost in enumerate(costs, 1)},
        )
    except (ValueError, TypeError) as error:
        raise InputError(
            f"Trial {trial.name} in {STATE} has options that {space.path} does not allow: {error}. "
            "Restore the file, or pass another --run-dir."
        ) from error


def _key(values: Mapping[str, Value]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(values.items()))
