"""Options that are declared once, as fields of a frozen dataclass, and what follows from it.

    @dataclasses.dataclass(frozen=True)
    class Options:
        shuffle: str = option("window", "Order of an epoch.", choices=("window", "off"))
        seed: int = option(0, "Seed of the order.", limits=Limits(0))

        def __post_init__(self) -> None:
            check_declared(self, "my.function")

The dataclass itself is the Python signature. The flags of click (`cli/options.py`), those of
the table in docs/options.md and the checks here are derived from its fields.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from foundation.errors import UsageError
from foundation.wording import did_you_mean


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


class Form(NamedTuple):
    """A form of values that several options have, such as a path or a size.

    Attributes:
        metavar: Such a value in the help of a flag.
        check: Called with (name, value); raises UsageError if the value is malformed.
        absolute: The value as every process understands it, whatever its working directory.
    """

    metavar: str
    check: Callable[[str, Any], object]
    absolute: Callable[[Any], Any] = lambda value: value


def option(
    default: Any,
    help: str,
    metavar: str = "",
    *,
    details: str = "",
    choices: Collection[str] = (),
    type: Callable[[str], Any] | None = None,
    limits: Limits | None = None,
    form: Form | None = None,
    check: Callable[[str, Any], object] | None = None,
    excludes: Mapping[str, str] | None = None,
    kinds: tuple[str, ...] = (),
    shown: str = "",
    repeatable: bool = False,
    identity: bool = True,
    absent_as: Any = dataclasses.MISSING,
    reading: int | None = None,
) -> Any:
    """A field of a declaration.

    Args:
        default: The value if the option is not given.
        help: Its effect, in one sentence: the help of the flag.
        metavar: The value in the help of the flag; not needed for numbers, with choices or a form.
        details: Further sentences, for the reference in docs and docstrings.
        choices: All values, if these are names.
        type: From the text of a command line to the value; bool for a flag without a value. Not
            needed for text, nor where it is the type of the default.
        limits: Interval that a number is in.
        form: Form of the text.
        check: Called with (name, value) like that of a form, if no other option has this form.
        excludes: Options that this one cannot be combined with, as they are typed ("--no-labels",
            "--dedup off"), with the reason, which continues "--this-option ...".
        kinds: The kinds of sets that it is for; empty for all.
        shown: The default for people, if None stands for something else.
        repeatable: Whether its flag may be given several times; commas join the values.
        identity: Whether another value means another result, so that what was begun with one value
            cannot be continued with another.
        absent_as: For an option that is younger than stored results: the value that those without
            it were made with. It is left out of a description of the result at this value.
        reading: For an option that decides how records are read: its place among such options,
            whose values are hashed together.
    """
    metadata = {name: value for name, value in locals().items() if name != "default"}
    metadata["type"] = type or (default.__class__ if isinstance(default, int | float) else str)
    numbers = {int: "N", float: "X"}
    metadata["metavar"] = metavar or (form.metavar if form else numbers.get(metadata["type"], ""))
    metadata["excludes"] = excludes or {}
    return dataclasses.field(default=default, metadata=metadata)


def redeclared(base: type, name: str, **changes: Any) -> Any:
    """The field of a base class, for a subclass in which its default, help or choices differ.

    Args:
        base: The dataclass that declares it.
        name: Name of the field.
        changes: Arguments of `option` by name; the others stay as they are.
    """
    field = next(field for field in declared(base) if field.name == name)
    return option(**{"default": field.default, **field.metadata, **changes})


def declared(options: Any) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass, or of an instance, that are options."""
    return [field for field in dataclasses.fields(options) if "help" in field.metadata]


def flag_of(name: str) -> str:
    """The flag of a field: "--label-column"."""
    return f"--{name.replace('_', '-')}"


def default_of(field: dataclasses.Field[Any]) -> str:
    """The default for people; empty if there is none to show."""
    if field.metadata["type"] is bool or field.default in (None, ()):
        return str(field.metadata["shown"])
    return str(field.default)


def check_declared(options: Any, where: str = "", name_of: Callable[[str], str] = str) -> None:
    """Checks that every value, and every pair of options, is as declared.

    None passes where it is the default.

    Args:
        options: A dataclass whose fields are made by `option`; others are left unchecked.
        where: What takes them, for messages.
        name_of: From the name of a field to the one in messages.

    Raises:
        UsageError: A value is not, or a pair.
    """
    for field in declared(options):
        check_value(field, getattr(options, field.name), name_of(field.name), where)
    for field in declared(options):
        for other, reason in field.metadata["excludes"].items():
            if _is_given(options, field.name) and _matches(options, other):
                raise UsageError(
                    f"{_typed(options, field)} {reason} and cannot be combined with {other}. "
                    "Leave one of them out."
                )


def check_value(field: dataclasses.Field[Any], value: Any, name: str, where: str = "") -> None:
    """Checks that a value is as its option declares it; None passes where it is the default.

    Args:
        field: The option.
        value: Its value.
        name: What messages call the option.
        where: What takes it, for messages.

    Raises:
        UsageError: It is not.
    """
    if value is None and field.default is None:
        return
    metadata = field.metadata
    if metadata["choices"]:
        check_choice(name, value, metadata["choices"], where)
    if metadata["limits"] is not None:
        _check_number(name, value, metadata["limits"], where, metadata["type"] is not float)
    checks = [metadata["form"] and metadata["form"].check, metadata["check"]]
    for check in filter(None, checks):
        if value is None:
            raise UsageError(
                f"{name} is None{_at(where)}. Leave it out for {field.default!r}, its default."
            )
        check(f"{name}{_at(where)}", value)


def has_type(field: dataclasses.Field[Any], value: Any) -> bool:
    """Whether a value that was stored is of the type of its option."""
    kind = field.metadata["type"]
    if value is None:
        return field.default is None
    if kind not in (bool, int, float):
        return isinstance(value, str)
    return isinstance(value, (int, float)) and isinstance(value, bool) == (kind is bool)


def check_choice(
    what: str, value: object, choices: Iterable[str], where: object = "reader.load"
) -> None:
    """Checks that the value is one of the choices.

    Raises:
        UsageError: It is not; the message lists the choices and names the nearest.
    """
    names = list(choices)
    if value in names:
        return
    near = did_you_mean(str(value), names)
    raise UsageError(f"Unknown {what} {value!r}{_at(where)}. {near}Choices: {', '.join(names)}.")


def check_integer(
    what: str, value: Any, low: int, high: int | None = None, where: object = "reader.load"
) -> None:
    """Checks that the value is an integer in [low, high].

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


def _is_given(options: Any, name: str) -> bool:
    """Whether an option has another value than its default."""
    default = next(field.default for field in declared(options) if field.name == name)
    return bool(getattr(options, name) != default)


def _matches(options: Any, typed: str) -> bool:
    """Whether an option is given, "--pack", or has a value, "--dedup off"."""
    flag, _, value = typed.partition(" ")
    name = flag.removeprefix("--").replace("-", "_")
    return str(getattr(options, name)) == value if value else _is_given(options, name)


def _typed(options: Any, field: dataclasses.Field[Any]) -> str:
    flag = flag_of(field.name)
    return f"{flag} {getattr(options, field.name)}" if field.metadata["choices"] else flag


def with_absolute_paths(options: Any) -> Any:
    """The options with paths that mean the same in every process."""
    paths = {
        field.name: field.metadata["form"].absolute(getattr(options, field.name))
        for field in declared(options)
        if field.metadata["form"] and getattr(options, field.name)
    }
    return dataclasses.replace(options, **paths)


def described(declaration: Any) -> str:
    """The options as lines of the section "Args" of a docstring."""
    lines = []
    for field in declared(declaration):
        text = f"{field.name}: {field.metadata['help']} {field.metadata['details']}".rstrip()
        wrapped = textwrap.wrap(
            text, 100, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False
        )
        lines += wrapped
    return "\n".join(lines)
