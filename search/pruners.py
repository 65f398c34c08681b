"""When a trial is stopped early: functions of the values of all trials by epoch.

Optuna's pruners keep state in its storage; these need none, so that a search that was killed
decides as it would have decided.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from search.trials import Trial

# called with (costs of this trial up to now, the other trials, epochs of this trial)
Prune = Callable[[Sequence[float], Sequence[Trial], int], bool]

_STARTUP_TRIALS = 4  # completed ones, before the first is stopped
_WARM_UP = 4  # a trial may use a fourth of its epochs before it is compared
_REDUCTION = 3  # of every so many trials, one passes a rung


def _median(costs: Sequence[float], others: Sequence[Trial], epochs: int) -> bool:
    """Whether a trial is worse than the median of the completed trials.

    The best value so far is compared with the best ones that they had at the same epoch (median
    stopping rule, Golovin et al. 2017, with the best in place of the mean value).
    """
    epoch = len(costs)
    if epoch < max(1, epochs // _WARM_UP):
        return False
    reached = [
        min(other.costs[:epoch])
        for other in others
        if other.state == "completed" and len(other.costs) >= epoch
    ]
    return len(reached) >= _STARTUP_TRIALS and min(costs) > statistics.median(reached)


def _halving(costs: Sequence[float], others: Sequence[Trial], epochs: int) -> bool:
    """Whether a trial is not among the best third of the trials at this rung.

    Rungs are epochs 1, 3, 9, ... A trial that comes first passes (ASHA, Li et al. 2020, in the
    variant that stops trials rather than pausing them).
    """
    epoch = len(costs)
    if not _is_rung(epoch):
        return False
    reached = [min(other.costs[:epoch]) for other in others if len(other.costs) >= epoch]
    passing = max(1, (len(reached) + 1) // _REDUCTION)
    return sum(cost < min(costs) for cost in reached) >= passing


def _is_rung(epoch: int) -> bool:
    while epoch % _REDUCTION == 0:
        epoch //= _REDUCTION
    return epoch == 1


def _none(costs: Sequence[float], others: Sequence[Trial], epochs: int) -> bool:
    return False


PRUNERS: dict[str, Prune] = {"median": _median, "halving": _halving, "none": _none}
