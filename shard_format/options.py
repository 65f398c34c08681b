"""How an option is declared: once, as a field of a frozen dataclass.

    @dataclasses.dataclass(frozen=True)
    class Options:
        seed: int = option(0, "Seed of the shuffle.", "N", type=int, bounds=(0, 2**32 - 1))

The click flags (`cli/options.py`), the argparse flags of `python -m beam_jobs`, the table in
docs/options.md and the checks of `check_options` are derived from such fields; the dataclass itself
is the Python signature.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from shard_format.errors import UsageError


class Form(NamedTuple):
    """A form of values that several options have, such as a path or a size.

    Attributes:
        metavar: What the help calls such a value.
        check: Called with (flag, value); raises UsageError if the value is malformed.
        absolute: The value as every process understands it, whatever its working directory.
    """

    metavar: str
    check: Callable[[str, Any], object]
    absolute: Callable[[Any], Any] = lambda value: value


def option(
    default: Any,
    help: str,
    metavar: str | None = None,
    *,
    type: Callable[[str], Any] = str,
    choices: Collection[str] = (),
    bounds: tuple[float, float] | None = None,
    form: Form | None = None,
    check: Callable[[str, Any], object] | None = None,
    excludes: Mapping[str, str] | None = None,
    default_text: str | None = None,
) -> Any:
    """A field with a flag of its own.

    Args:
        default: None if what happens without the option depends on the data.
        help: One sentence, in the imperative or about the value.
        metavar: What the help calls the value; not needed with choices or a form.
        type: Of the value: str, int, float, Path, or bool for a flag without a value.
        choices: The only values, as a visible dict has them.
        bounds: The least and the greatest value.
        form: What kind of text it is.
        check: Called with (flag, value) as that of a form, for a form that only this option has.
        excludes: Options that this one cannot be combined with, as they are typed ("--no-labels",
            "--dedup off"), and the reason, which continues "--this-option ...".
        default_text: What the help says in place of a default of None.
    """
    metadata = {
        "help": help,
        "metavar": metavar or (form.metavar if form else None),
        "type": type,
        "choices": choices,
        "bounds": bounds,
        "form": form,
        "check": check,
        "excludes": excludes or {},
        "default_text": default_text,
    }
    return dataclasses.field(default=default, metadata=metadata)


def redeclared(base: type, name: str, **changes: Any) -> Any:
    """The field of a base class, for a subclass in which its default, help or choices differ.

    Args:
        base: The dataclass that declares it.
        name: Of the field.
        changes: Arguments of `option` by name; the others stay as they are.
    """
    field = next(field for field in declared(base) if field.name == name)
    return option(**{"default": field.default, **field.metadata, **changes})


def declared(options: Any) -> Iterator[dataclasses.Field[Any]]:
    """The fields of a dataclass, or of an instance, that are options."""
    return (field for field in dataclasses.fields(options) if "help" in field.metadata)


def flag_of(name: str) -> str:
    """The flag of a field: "--label-column"."""
    return f"--{name.replace('_', '-')}"


def default_of(field: dataclasses.Field[Any]) -> str | None:
    """The default for people; None where there is none to show."""
    if field.metadata["type"] is bool or field.default is None:
        text: str | None = field.metadata["default_text"]
        return text
    return str(field.default)


def check_options(options: Any) -> None:
    """Returns if every value, and every pair of options, is as declared.

    Raises:
        UsageError: One is not.
    """
    for field in declared(options):
        value = getattr(options, field.name)
        if value is not None or field.default is not None:
            _check_value(field, value)
    for field in declared(options):
        for other, reason in field.metadata["excludes"].items():
            if _is_given(options, field.name) and _matches(options, other):
                raise UsageError(
                    f"{_typed(options, field)} {reason} and cannot be combined with {other}. "
                    "Leave one of them out."
                )


def _check_value(field: dataclasses.Field[Any], value: Any) -> None:
    flag, metadata = flag_of(field.name), field.metadata
    if value is None:
        raise UsageError(
            f"{flag} must have a value, got None. Leave it out for {field.default!r}, its default."
        )
    if metadata["type"] is int and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{flag} must be a whole number, got {value!r}. Pass one.")
    if metadata["type"] is float and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        raise UsageError(f"{flag} must be a number, got {value!r}. Pass one.")
    if metadata["choices"] and value not in metadata["choices"]:
        raise UsageError(
            f"{flag} must be one of {', '.join(metadata['choices'])}, got {value!r}. Choose one of "
            "them."
        )
    if metadata["bounds"]:
        low, high = metadata["bounds"]
        if not low <= value <= high:  # NaN is in no range
            raise UsageError(
                f"{flag} must be in [{low}, {high}], got {value}. Choose a value in it."
            )
    for check in (metadata["form"] and metadata["form"].check, metadata["check"]):
        if check:
            check(flag, value)


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
    found = {
        field.name: field.metadata["form"].absolute(getattr(options, field.name))
        for field in declared(options)
        if field.metadata["form"] and getattr(options, field.name)
    }
    return dataclasses.replace(options, **found)
