"""The options of `shardmill search`, each declared once."""

from __future__ import annotations

import dataclasses

from foundation.options import Limits, check_declared, flag_of, option
from search.proposals import METHODS
from search.pruners import PRUNERS

DEFAULT_TRIALS = 20
_MAX_SEED = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """How a space is searched, documented by the declarations.

    Attributes:
        method: One of `search.proposals.METHODS`.
    """

    method: str = option(
        "bayesian",
        "How options are chosen: every point of the grid, at random, or where earlier trials were "
        "good (TPE).",
        choices=tuple(METHODS),
    )
    trials: int | None = option(
        None,
        "Number of trials, with those that are done.",
        metavar="N",
        type=int,
        limits=Limits(1),
        excludes={"--method grid": "is for random and bayesian"},
        shown=f"{DEFAULT_TRIALS}, of a grid all points",
    )
    parallel: int = option(
        1,
        "Trials at the same time, each in a process with its share of the cores and GPUs.",
        metavar="N",
        type=int,
        limits=Limits(1, 4096),
    )
    pruner: str = option(
        "median",
        "Which trials are stopped early: those worse than the median of the completed ones, all "
        "but the best third at epochs 1, 3, 9, ..., or none.",
        choices=tuple(PRUNERS),
    )
    seed: int = option(
        0,
        "Seed of the choice of options; --seed of the training is an option of the space.",
        metavar="N",
        type=int,
        limits=Limits(0, _MAX_SEED),
    )
    retry_failed: bool = option(
        False, "Run trials again that failed in an earlier run of the search.", type=bool
    )

    def __post_init__(self) -> None:
        check_declared(self, name_of=flag_of)
