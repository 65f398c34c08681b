"""Events of a search: it prints nothing, its caller shows these."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from search.trials import Trial


@dataclasses.dataclass(frozen=True)
class SearchBegun:
    """The search begins, or is continued.

    Attributes:
        trials: Trials of earlier runs.
    """

    trials: tuple[Trial, ...]


@dataclasses.dataclass(frozen=True)
class TrialChanged:
    """A trial was started, has done an epoch (the last of its `values`) or has ended.

    Attributes:
        trial: Trial with its options; no longer "running" if it has ended.
        slot: Number of its process among the parallel ones, from 0.
    """

    trial: Trial
    slot: int


@dataclasses.dataclass(frozen=True)
class Waiting:
    """Processes of an earlier run of the search, which was killed, still write checkpoints."""


@dataclasses.dataclass(frozen=True)
class Stopping:
    """A signal has come; the trials write checkpoints."""


Event = SearchBegun | TrialChanged | Waiting | Stopping
OnEvent = Callable[[Event], None]
