"""Flags of commands, made from declarations: dataclasses whose fields say what an option is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def click_options(
    declaration: Any,
    names: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    shown: Mapping[str, str] | None = None,
) -> Decorator:
    """A decorator that gives a command a flag for each option of a declaration.

    The metadata of a field has `help`, and may have `type` (bool for a flag without a value),
    `choices`, `metavar`, `kinds` (the record types that it is for), and `shown`: the default for
    people, where None stands for something else.

    Args:
        declaration: A dataclass; its fields without `help` get no flag.
        names: The options that get one; empty for all.
        defaults: Defaults that differ from the declared ones, by option.
        shown: What to show of defaults that are None, where it differs from the declared text.
    """
    fields = [field for field in dataclasses.fields(declaration) if "help" in field.metadata]
    chosen = [field for field in fields if not names or field.name in names]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for field in reversed(chosen):
            default = (defaults or {}).get(field.name, field.default)
            text = (shown or {}).get(field.name, field.metadata.get("shown", ""))
            command = _flag(field, default, text)(command)
        return command

    return decorate


def _flag(field: dataclasses.Field[Any], default: Any, shown: str) -> Decorator:
    flag, declared = f"--{field.name.replace('_', '-')}", field.metadata
    kinds = declared.get("kinds", ())
    text = declared["help"] + (f" For {' and '.join(kinds)} sets." if kinds else "")
    if declared.get("type") is bool:
        return click.option(flag, is_flag=True, default=default, help=text)
    choices = declared.get("choices", ())
    return click.option(
        flag,
        default=default,
        type=click.Choice(choices) if choices else declared.get("type"),
        metavar=None if choices else declared.get("metavar") or "NAME",
        show_default=(shown or False) if default in (None, ()) else True,
        help=text,
    )
