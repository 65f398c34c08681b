"""Whether what a caller gave is one of the choices, or a whole number within limits."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from shard_format import UsageError


def check_choice(
    what: str, value: object, choices: Iterable[str], where: object = "reader.load"
) -> None:
    """Returns if the value is one of the choices.

    Raises:
        UsageError: It is not; the message lists the choices and names the nearest.
    """
    names = list(choices)
    if value in names:
        return
    near = difflib.get_close_matches(str(value), names, n=1)
    advice = f"Did you mean {near[0]!r}?" if near else f"Choose {_listed(names)}."
    raise UsageError(
        f"{what} must be one of {', '.join(names)}, got {value!r} in {where}. {advice}"
    )


def check_integer(
    what: str, value: Any, low: int, high: int | None = None, where: object = "reader.load"
) -> None:
    """Returns if the value is a whole number in [low, high].

    Raises:
        UsageError: It is not.
    """
    # bool is an int to Python; batch_size=True is a slip, not a batch of one.
    if isinstance(value, int) and not isinstance(value, bool) and value >= low:
        if high is None or value <= high:
            return
    limits = f"at least {low}" if high is None else f"in [{low}, {high}]"
    raise UsageError(
        f"{what} must be a whole number {limits}, got {value!r} in {where}. Correct it."
    )


def _listed(names: list[str]) -> str:
    return " or ".join(repr(name) for name in names)
