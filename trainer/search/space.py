"""The space of a search: options of `shardmill train`, some of which vary."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from foundation.errors import UsageError
from foundation.options import flag_of

Value = bool | int | float | str | None

MAX_GRID = 100_000  # trials, each of them a training
_ROUNDING = 1e-9  # of (high - low) / step, which may miss a whole number


@dataclasses.dataclass(frozen=True)
class Parameter:
    """An option that varies: choices, or a range of numbers.

    Attributes:
        name: The field of `TrainOptions`.
        choices: Its values; empty for a range.
        low: Least value of a range.
        high: Greatest value of a range, which is in it.
        log: Whether the range is drawn from on a logarithmic scale.
        step: Distance of values, counted from `low`; None for any value.
        points: How many values of a range a grid has; None where `step` or whole numbers say so.
        when: Other parameters, each with those of its choices under which this one applies.
    """

    name: str
    choices: tuple[Value, ...] = ()
    low: float = 0
    high: float = 0
    log: bool = False
    step: float | None = None
    points: int | None = None
    when: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    @property
    def is_integer(self) -> bool:
        """Whether a range has whole numbers only."""
        return isinstance(self.low, int)

    @property
    def size(self) -> int | None:
        """Number of values; None for a range of all numbers."""
        if self.choices:
            return len(self.choices)
        step = self.step or (1 if self.is_integer else None)
        return None if step is None else int((self.high - self.low) / step + _ROUNDING) + 1

    def applies(self, values: Mapping[str, Value]) -> bool:
        """Whether it has a value, given those of the parameters before it."""
        return all(
            any(same(values[name], choice) for choice in choices) for name, choices in self.when
        )

    def values(self) -> tuple[Value, ...]:
        """All values of choices or of a range with a step."""
        if self.choices:
            return self.choices
        step = self.step or 1
        return tuple(self.low + step * index for index in range(self.size or 0))

    def grid(self) -> tuple[Value, ...]:
        """The values of a grid.

        Raises:
            UsageError: It is a range without a number of points.
        """
        count = self.points or self.size
        if count is not None and count > MAX_GRID:
            raise UsageError(
                f"{flag_of(self.name)} has {count} points in a grid, which has at most {MAX_GRID}. "
                "Give it fewer 'points', or use --method random or bayesian."
            )
        if self.points is None:
            if self.size is None:
                raise UsageError(
                    f"{flag_of(self.name)} is a range of all numbers, and a grid needs a number of "
                    "them. Add 'points: 4' to it, or use --method random or bayesian."
                )
            return self.values()
        shares = [index / max(1, self.points - 1) for index in range(self.points)]
        found = [_between(self.low, self.high, share, self.log) for share in shares]
        if self.is_integer:
            return tuple(dict.fromkeys(round(value) for value in found))
        return tuple(found)

    def as_json(self) -> object:
        """As run directories store it."""
        return {**dataclasses.asdict(self), "choices": list(self.choices)}


@dataclasses.dataclass(frozen=True)
class Space:
    """Options of all trials, and those that vary.

    Attributes:
        path: Of the file.
        data: Of the shard set; None if the file does not say.
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

    def _combinations(
        self, values: Mapping[str, tuple[Value, ...]], begun: Mapping[str, Value] | None = None
    ) -> Iterator[dict[str, Value]]:
        begun = begun or {}
        left = [each for each in self.parameters if each.name in values]
        if not left:
            yield dict(begun)
            return
        first, *_ = left
        rest = {name: found for name, found in values.items() if name != first.name}
        if not first.applies(begun):
            yield from self._combinations(rest, begun)
            return
        for value in values[first.name]:
            yield from self._combinations(rest, {**begun, first.name: value})

    def check(self, options: Callable[[Mapping[str, Value]], object]) -> None:
        """Returns if the options of every trial are right, as far as two of them decide that.

        Contradictions are between two options each, so that all values of every two are enough.

        Args:
            options: Raises UsageError if the options of a trial are wrong.

        Raises:
            UsageError: Some are.
        """
        few = {each.name: each.choices or (each.low, each.high) for each in self.parameters}
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
        varied = {each.name: each.as_json() for each in self.parameters}
        return {**self.fixed, **varied}


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


def same(one: Value, other: Value) -> bool:
    """Whether two values are equal, and not only as True and 1 are."""
    return type(one) is type(other) and one == other


def _between(low: float, high: float, share: float, log: bool) -> float:
    if share in (0, 1):  # to the bit
        return float((low, high)[int(share)])
    if log:
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return low + share * (high - low)
