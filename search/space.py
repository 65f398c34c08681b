"""The space of a search: options of `shardmill train`, some of which vary."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from foundation.errors import UsageError
from foundation.options import flag_of

Value = bool | int | float | str | None

MAX_GRID = 100_000  # trials, each of them a training
_ROUNDING = 1e-9  # of (high - low) / step, which may miss a whole number


@dataclasses.dataclass(frozen=True)
class Parameter:
    """An option that varies.

    Attributes:
        name: Field of `TrainOptions`.
        distribution: Values, as a `BaseDistribution` of Optuna.
        points: Number of values that a grid takes of a range; None where the range has steps.
        when: Other parameters, each with those of its choices under which this one applies.
    """

    name: str
    distribution: Any
    points: int | None = None
    when: Mapping[str, Sequence[Value]] = dataclasses.field(default_factory=dict)

    @property
    def choices(self) -> tuple[Value, ...]:
        """All values, where these are listed; empty for a range."""
        return tuple(getattr(self.distribution, "choices", ()))

    @property
    def size(self) -> int | None:
        """Number of values; None for a range of all numbers."""
        if self.choices:
            return len(self.choices)
        span, step = self.distribution.high - self.distribution.low, self.distribution.step
        return None if step is None else int(span / step + _ROUNDING) + 1

    def applies(self, values: Mapping[str, Value]) -> bool:
        """Whether it has a value, given those of the parameters before it."""
        return all(values[name] in choices for name, choices in self.when.items())

    def values(self) -> tuple[Value, ...]:
        """All values of choices or of a range with a step."""
        if self.choices:
            return self.choices
        low, step = self.distribution.low, self.distribution.step
        return tuple(low + step * index for index in range(self.size or 0))

    def grid(self) -> tuple[Value, ...]:
        """The values of a grid.

        Raises:
            UsageError: It is a range without a number of points, or has too many.
        """
        import numpy as np

        count = self.points or self.size
        if count is None:
            raise UsageError(
                f"{flag_of(self.name)} is a range of all numbers, and a grid needs a number of "
                "them. Add 'points: 4' to it, or use --method random or bayesian."
            )
        if count > MAX_GRID:
            raise UsageError(
                f"{flag_of(self.name)} has {count} points in a grid, which has at most {MAX_GRID}. "
                "Give it fewer 'points', or use --method random or bayesian."
            )
        if self.points is None:
            return self.values()
        low, high = self.distribution.low, self.distribution.high
        spaced = np.geomspace if self.distribution.log else np.linspace
        values = spaced(low, high, self.points).tolist()
        if isinstance(low, int):
            values = [round(value) for value in values]
        return tuple(dict.fromkeys(values))

    def __str__(self) -> str:
        """What varies, for people and for the record: "low 0.1 high 0.2 log"."""
        if self.choices:
            text = f"one of {list(self.choices)}"
        else:
            own = vars(self.distribution)
            named = {**{name: own[name] for name in ("low", "high", "step")}, "points": self.points}
            parts = [f"{name} {value}" for name, value in named.items() if value is not None]
            text = " ".join([*parts, *(["log"] if own["log"] else [])])
        conditions = [f"{name} in {list(choices)}" for name, choices in self.when.items()]
        return " when ".join([text, *([" and ".join(conditions)] if conditions else [])])


@dataclasses.dataclass(frozen=True)
class Space:
    """Options of all trials, and those that vary.

    Attributes:
        path: Path of the file.
        data: Place of the shard set; None if the file does not say.
        fixed: Options of every trial, by field of `TrainOptions`.
        parameters: Options that vary; those with a condition come last.
    """

    path: str
    data: str | None
    fixed: Mapping[str, Value]
    parameters: tuple[Parameter, ...]

    @property
    def size(self) -> int | None:
        """Upper bound of the number of combinations; None if there are infinitely many."""
        sizes = [parameter.size for parameter in self.parameters]
        return None if None in sizes else math.prod(size or 1 for size in sizes)

    def grid(self) -> Iterator[dict[str, Value]]:
        """Every combination of the points of a grid; the last option of the file changes fastest.

        Raises:
            UsageError: A range has no number of points.
        """
        return self._combinations({each.name: each.grid() for each in self.parameters})

    def combinations(self) -> Iterator[dict[str, Value]]:
        """Every combination of a space of a known size."""
        return self._combinations({each.name: each.values() for each in self.parameters})

    def _combinations(self, values: Mapping[str, tuple[Value, ...]]) -> Iterator[dict[str, Value]]:
        combinations: Iterator[dict[str, Value]] = iter([{}])
        for parameter in self.parameters:
            combinations = _extended(combinations, parameter, values[parameter.name])
        return combinations

    def check(self, options: Callable[[Mapping[str, Value]], object]) -> None:
        """Checks that the options of every trial are right, as far as two of them decide that.

        Contradictions are between two options each, so that all values of every two are enough.

        Args:
            options: Raises UsageError if the options of a trial are wrong.

        Raises:
            UsageError: Some are.
        """
        few = {
            each.name: each.choices or (each.distribution.low, each.distribution.high)
            for each in self.parameters
        }
        first = {name: values[:1] for name, values in few.items()}
        pairs: list[tuple[str, ...]] = [*itertools.combinations(few, 2)]
        for pair in pairs or [(name,) for name in few]:
            for values in self._combinations({**first, **{name: few[name] for name in pair}}):
                try:
                    options({**self.fixed, **values})
                except UsageError as error:
                    raise UsageError(
                        f"{self.path} allows {shown(values)}. {error} Or give an option of these a "
                        "condition, such as 'when: {schedule: [cosine, constant]}'."
                    ) from None

    def as_json(self) -> dict[str, Any]:
        """What must be equal for a search to continue."""
        return {**self.fixed, **{each.name: str(each) for each in self.parameters}}


def _extended(
    combinations: Iterator[dict[str, Value]], parameter: Parameter, values: Sequence[Value]
) -> Iterator[dict[str, Value]]:
    for begun in combinations:
        if not parameter.applies(begun):
            yield begun
            continue
        for value in values:
            yield {**begun, parameter.name: value}


def shown(values: Mapping[str, Value]) -> str:
    """Options for people: "learning-rate 0.001, optimizer sgd"."""
    return ", ".join(
        f"{flag_of(name).removeprefix('--')} {shown_value(value)}" for name, value in values.items()
    )


def shown_value(value: Value) -> str:
    """A value of an option for people: four digits of a number."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)
