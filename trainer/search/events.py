"""Events of a search: it prints nothing, its caller shows these."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from trainer.search.trials import Trial


@dataclasses.dataclass(frozen=True)
class SearchBegun:
    """The search begins, or is continued.

    Attributes:
        trials: Trials of earlier runs.
    """

    trials: tuple[Trial, ...]


@dataclasses.dataclass(frozen=True)
class TrialBegun:
    """A process of a trial was started.

    Attributes:
        trial: Trial with its options.
        slot: Which of the parallel processes, counted from 0.
    """

    trial: Trial
    slot: int


@dataclasses.dataclass(frozen=True)
class TrialMeasured:
    """A trial has done an epoch, the last of its `values`."""

    trial: Trial
    slot: int


@dataclasses.dataclass(frozen=True)
class TrialEnded:
    """A trial has ended, for the reason that its `state` says."""

    trial: Trial
    slot: int


@dataclasses.dataclass(frozen=True)
class Waiting:
    """Processes of an earlier run of the search, which was killed, still write checkpoints."""


@dataclasses.dataclass(frozen=True)
class Stopping:
    """A signal has come; the trials write checkpoints."""


Event = SearchBegun | TrialBegun | TrialMeasured | TrialEnded | Waiting | Stopping
OnEvent = Callable[[Event], None]
