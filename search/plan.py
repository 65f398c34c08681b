"""A search that was checked against its set, before anything is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation.storage import Place
from reader.options import kind_of
from search.options import DEFAULT_TRIALS, SearchOptions
from search.proposals import num_trials
from search.space import Space, Value
from search.trials import Trial
from shard_format import Manifest, UsageError, load_manifest
from trainer.defaults import DEFAULTS
from trainer.options import TrainOptions, flags_of


@dataclasses.dataclass(frozen=True)
class SearchPlan:
    """A search that was checked against its set.

    Attributes:
        space: What is searched.
        options: How.
        data: Place of the shard set.
        root_hash: Root hash of the shard set.
        kind: Kind of the shard set.
        directory: Directory for all that the search writes.
        validation_split: The split that trials are measured on.
        num_trials: Number of trials at the end.
    """

    space: Space
    options: SearchOptions
    data: Place
    root_hash: str
    kind: str
    directory: Path
    validation_split: str
    num_trials: int

    @property
    def monitor(self) -> str:
        """What trials are compared by: "loss" or "accuracy" of the validation."""
        return str(self.space.fixed.get("monitor", "loss"))

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal for a search to be continued."""
        return {
            "space": self.space.as_json(),
            "root_hash": self.root_hash,
            **{name: getattr(self.options, name) for name in ("method", "pruner", "seed")},
        }

    def epochs(self, trial: Trial) -> int:
        """How many epochs a trial has if nothing ends it early."""
        given = {**self.space.fixed, **trial.options}.get("epochs")
        return int(given) if given else DEFAULTS[self.kind].epochs

    def arguments(self, options: Mapping[str, Value], run_dir: Path) -> list[str]:
        """Arguments of `shardmill train` for the options of a trial."""
        own = {"validation_split": self.validation_split, "monitor": self.monitor}
        values = {**self.space.fixed, **own, **options}
        flags = [f"{flag}={text}" if text else flag for flag, text in flags_of(values).items()]
        return [str(self.data), f"--run-dir={run_dir}", *flags]


def make_plan(space: Space, data: Place, directory: Path, options: SearchOptions) -> SearchPlan:
    """A search, checked as far as that takes no training.

    Raises:
        ShardSetError: There is no shard set in `data`.
        UsageError: An option is for sets of another kind, a grid has no number of points, or there
            is no split to compare trials on but the one that is kept for the final test.
    """
    manifest = load_manifest(data)
    kind = kind_of(manifest.schema)
    if kind in DEFAULTS:
        space.check(
            lambda values: TrainOptions(data=data, run_dir=directory, **values).settled(kind)  # type: ignore[arg-type]
        )
    return SearchPlan(
        space=space,
        options=options,
        data=data,
        root_hash=manifest.root_hash,
        kind=kind,
        directory=directory,
        validation_split=_validation_split(space, manifest, data),
        num_trials=num_trials(space, options.method, options.trials or DEFAULT_TRIALS),
    )


def _validation_split(space: Space, manifest: Manifest, data: Place) -> str:
    asked = str(space.fixed.get("validation_split", "auto"))
    name = "validation" if asked == "auto" else asked
    if name in ("test", "train"):
        raise UsageError(
            f"{space.path} compares trials on the split {name!r}, which then measures nothing any "
            "more: the best of many trials is best there by chance too. Name a split of its own "
            "with validation-split."
        )
    if name not in manifest.splits or not manifest.splits[name].records:
        names = ", ".join(manifest.splits)
        raise UsageError(
            f"{data} has no split {name!r} to compare trials on, only {names}; a test split is "
            "never used for that. Build the set with --split train=0.8,validation=0.1,test=0.1, or "
            "name another split with validation-split."
        )
    return name


def train_again(plan: SearchPlan, trial: Trial, run_dir: Path) -> list[str]:
    """The command that trains with the options of a trial once more."""
    return ["shardmill", "train", *plan.arguments(trial.options, run_dir)]


def default_directory(space: str) -> Path:
    """Directory of a search: next to the file of its space."""
    return Path(space).with_name(f"{Path(space).stem}-search")
