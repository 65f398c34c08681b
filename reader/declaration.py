"""Options declared once, as fields of a dataclass, and what follows from it: validation and texts.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options:
        shuffle: str = option("window", "Order of an epoch.", choices=("window", "off"))
        seed: int = option(0, "Seed of the order.", type=int, limits=Limits(0))

        def __post_init__(self) -> None:
            check_declared(self, "my.function")

`cli.options.click_options` makes the flags of a command from the same fields.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from shard_format import UsageError

_MOST_CHOICES = 30  # in a message: a set may have thousands of classes


@dataclasses.dataclass(frozen=True)
class Limits:
    """An interval of numbers.

    Attributes:
        low: The least value; None for no bound.
        high: The greatest value; None for no bound.
        excluded: Bounds that are outside of the interval.
    """

    low: float | None = None
    high: float | None = None
    excluded: tuple[float, ...] = ()

    def __contains__(self, value: float) -> bool:
        above = self.low is None or value >= self.low
        return above and (self.high is None or value <= self.high) and value not in self.excluded

    def __str__(self) -> str:
        if self.high is None:
            return f"above {self.low}" if self.low in self.excluded else f"of at least {self.low}"
        opening = "(" if self.low in self.excluded else "["
        closing = ")" if self.high in self.excluded else "]"
        return f"in {opening}{self.low}, {self.high}{closing}"


def option(
    default: Any,
    help: str,
    *,
    details: str = "",
    metavar: str = "",
    choices: tuple[str, ...] = (),
    type: Callable[[str], Any] = str,
    limits: Limits | None = None,
    kinds: tuple[str, ...] = (),
    shown: str = "",
) -> Any:
    """A field of a declaration.

    Args:
        default: Where the option is not given.
        help: What it does, in one sentence: the help of the flag.
        details: Further sentences, for the reference in docs and docstrings.
        metavar: The value in the help of the flag.
        choices: All values, where these are names.
        type: From the text of a command line to the value; bool for a flag without a value.
        limits: Of a number.
        kinds: The kinds of sets that it is for; empty for all.
        shown: The default for people, where it is None in code.
    """
    metadata = {name: value for name, value in locals().items() if name != "default"}
    return dataclasses.field(default=default, metadata=metadata)


def check_declared(options: Any, where: str = "", name_of: Callable[[str], str] = str) -> None:
    """Returns if the values of all fields are within their declared choices and limits.

    None passes where it is the default.

    Args:
        options: A dataclass whose fields are made by `option`; others are left unchecked.
        where: What takes them, for messages.
        name_of: From the name of a field to the one in messages.

    Raises:
        UsageError: A value is not.
    """
    for field in dataclasses.fields(options):
        value, declared = getattr(options, field.name), field.metadata
        if not declared or (value is None and field.default is None):
            continue
        name = name_of(field.name)
        if declared["choices"]:
            check_choice(name, value, declared["choices"], where)
        if declared["limits"] is not None:
            _check_number(name, value, declared["limits"], where, declared["type"] is not float)


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
    advice = f"Did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"Unknown {what} {value!r}{_at(where)}. {advice}Choices: {', '.join(names)}.")


def check_integer(
    what: str, value: Any, low: int, high: int | None = None, where: object = "reader.load"
) -> None:
    """Returns if the value is an integer in [low, high].

    Raises:
        UsageError: It is not.
    """
    _check_number(what, value, Limits(low, high), where, integer=True)


def _check_number(what: str, value: Any, limits: Limits, where: object, integer: bool) -> None:
    # bool is an int to Python; batch_size=True is a slip, not a batch of one.
    types = int if integer else (int, float)
    is_number = isinstance(value, types) and not isinstance(value, bool)
    is_finite = is_number and (isinstance(value, int) or math.isfinite(value))
    if is_finite and value in limits:
        return
    kind = "an integer" if integer else "a finite number"
    raise UsageError(f"{what} is {value!r}{_at(where)}. Pass {kind} {limits}.")


def _at(where: object) -> str:
    return f" in {where}" if where else ""


def described(declaration: Any) -> str:
    """The options as lines of the section "Args" of a docstring."""
    lines = []
    for field in dataclasses.fields(declaration):
        text = f"{field.name}: {field.metadata['help']} {field.metadata['details']}".rstrip()
        wrapped = textwrap.wrap(
            text, 100, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False
        )
        lines += wrapped
    return "\n".join(lines)
