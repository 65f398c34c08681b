"""Flags of commands from declared options; see `foundation.options`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import click
from typing_extensions import override

from foundation.options import declared, flag_of
from foundation.wording import did_you_mean

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Field = dataclasses.Field[Any]

_PATHS = ("FILE", "DIR")  # metavars of options whose value is one path


def click_options(
    declaration: type | Sequence[type],
    names: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    shown: Mapping[str, str] | None = None,
    *,
    unset: bool = False,
) -> Decorator:
    """A decorator that gives a command a flag for each option of a declaration.

    Args:
        declaration: A dataclass; its fields without `help` get no flag. Or several dataclasses: a
            flag then takes the values of any of them, and the options at hand check it.
        names: The options that get a flag; empty for all.
        defaults: Defaults that differ from the declared ones, by option.
        shown: What to show of defaults that are None, if it differs from the declared text.
        unset: Show no defaults, and pass None for every option that is not given.
    """
    fields: dict[str, list[Field]] = {}
    for one in [declaration] if isinstance(declaration, type) else declaration:
        for field in declared(one):
            fields.setdefault(field.name, []).append(field)
    chosen = {name: same for name, same in fields.items() if not names or name in names}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, same in reversed(chosen.items()):
            default = None if unset else (defaults or {}).get(name, same[0].default)
            text = "" if unset else (shown or {}).get(name, same[0].metadata["shown"])
            command = _flag(same, default, text)(command)
        return command

    return decorate


class _Choice(click.Choice[str]):
    """A choice whose error names the nearest value."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = did_you_mean(str(value), self.choices)
            raise click.BadParameter(f"{error.message} {near}".rstrip(), ctx, param) from None


class _Repeatable(click.Option):
    """A flag that may be given several times, with its values joined by commas."""

    @override
    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        # The value is one text in a --config file.
        values = (value,) if isinstance(value, str) else value
        return ",".join(super().type_cast_value(ctx, values)) or None


def _flag(same: list[Field], default: Any, shown: str) -> Decorator:
    """The flag of an option that one or more declarations have; the first gives its help."""
    flag, metadata = flag_of(same[0].name), same[0].metadata
    kinds = metadata["kinds"]
    text = metadata["help"] + (f" For {' and '.join(kinds)} sets." if kinds else "")
    if metadata["type"] is bool:
        if same[0].default is None:  # on, off, or as the program decides
            flag = f"{flag}/--no-{flag.removeprefix('--')}"
        show = shown or False
        return click.option(flag, is_flag=True, default=default, show_default=show, help=text)
    choices = _all_choices(same)
    kind: Any = _Choice(choices) if choices else metadata["type"]
    if metadata["type"] is str and metadata["metavar"] in _PATHS:
        kind = click.Path()  # shells complete paths then
    return click.option(
        flag,
        cls=_Repeatable if metadata["repeatable"] else None,
        multiple=metadata["repeatable"],
        default=default,
        type=kind,
        metavar=None if choices else metadata["metavar"] or "NAME",
        show_default=(shown or False) if default in (None, ()) else True,
        help=text,
    )


def _all_choices(same: list[Field]) -> list[str]:
    """The values that any of the declarations has; none if one of them takes any value."""
    choices = [field.metadata["choices"] for field in same]
    if not all(choices):
        return []
    return list(dict.fromkeys(choice for some in choices for choice in some))
