"""Flags of click from options that are declared once; see `shard_format.options`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import click

from shard_format.options import declared, default_of, flag_of

Field = dataclasses.Field[Any]


def click_options(
    declarations: type | Sequence[type], names: Collection[str] = (), *, unset: bool = False
) -> Callable[[Any], Any]:
    """A decorator that gives a command a flag for every option.

    Args:
        declarations: A dataclass with options; or several, and a flag takes what any of them takes.
            Their own checks then decide.
        names: Fields to give flags for, in the order of their declaration; all if empty.
        unset: Show no defaults, and pass None for every option that is not given.
    """
    kinds = [declarations] if isinstance(declarations, type) else list(declarations)
    fields: dict[str, list[Field]] = {}
    for kind in kinds:
        for field in declared(kind):
            fields.setdefault(field.name, []).append(field)

    def decorate(command: Any) -> Any:
        for name, same in reversed(fields.items()):
            if not names or name in names:
                command = _flag(same, unset)(command)
        return command

    return decorate


def _flag(same: list[Field], unset: bool) -> Callable[[Any], Any]:
    """The flag of an option that one or more dataclasses declare; the first gives its help."""
    field, metadata = same[0], same[0].metadata
    flag, help = flag_of(field.name), metadata["help"]
    if metadata["type"] is bool:
        return click.option(flag, is_flag=True, default=None if unset else False, help=help)
    choices = _all_choices(same)
    return click.option(
        flag,
        default=None if unset else field.default,
        type=click.Choice(choices) if choices else _click_type(metadata["type"]),
        metavar=None if choices else metadata["metavar"] or "NAME",
        show_default=False if unset else _shown_default(field),
        help=help,
    )


def _all_choices(same: list[Field]) -> list[str]:
    """The values that any of the declarations has; none if one of them takes any value."""
    choices = [field.metadata["choices"] for field in same]
    if not all(choices):
        return []
    return list(dict.fromkeys(choice for some in choices for choice in some))


def _click_type(kind: Any) -> Any:
    return click.Path(path_type=Path) if kind is Path else kind


def _shown_default(field: Field) -> bool | str:
    return field.default is not None or default_of(field) or False
