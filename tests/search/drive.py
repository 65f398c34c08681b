"""Runs a search of fake trainings in a process of its own, for tests that kill it."""

import sys
from pathlib import Path

from search.options import SearchOptions
from search.plan import SearchPlan
from search.searching import search
from search.space_file import read_space

FAKE = (sys.executable, "-S", str(Path(__file__).with_name("fake_train.py")))


def make_plan(space: str, directory: Path, num_trials: int = 6, **options: object) -> SearchPlan:
    """A plan on a set that nobody reads."""
    return SearchPlan(
        space=read_space(space),
        options=SearchOptions(**options),
        data=Path("set"),
        root_hash="0" * 64,
        kind="image",
        directory=directory,
        validation_split="validation",
        num_trials=num_trials,
    )


if __name__ == "__main__":
    space, directory, parallel = sys.argv[1:]
    options = {"parallel": int(parallel), "method": "random", "pruner": "none"}
    search(make_plan(space, Path(directory), **options), FAKE, [], lambda event: None)
