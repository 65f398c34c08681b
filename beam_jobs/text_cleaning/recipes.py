"""--clean STEP[:NAME=VALUE...],...: which steps, in which order, with which parameters."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from beam_jobs.text_cleaning.base import Applied, Step
from shard_format import UsageError

# Recipes by name; a name may stand among steps and means all of its own.
RECIPES: dict[str, str] = {
    "none": "",
}


def parse_recipe(recipe: str, steps: Mapping[str, type[Step]]) -> tuple[Applied, ...]:
    """The steps of a recipe, in order.

    Args:
        recipe: As --clean has it.
        steps: Every step by its name.

    Raises:
        UsageError: A step or a parameter is unknown, or a value is of another kind.
    """
    applied: list[Applied] = []
    for part in filter(None, recipe.split(",")):
        name, *parameters = part.strip().split(":")
        if name in RECIPES and not parameters:
            applied += parse_recipe(RECIPES[name], steps)
            continue
        if name not in steps:
            known = [*steps, *RECIPES]
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "Name one of these."
            raise UsageError(f"--clean must name steps of {', '.join(known)}, got {name!r}. {hint}")
        applied.append(Applied(name, _made(name, steps[name], parameters)))
    return tuple(applied)


def _made(name: str, step: type[Step], parameters: list[str]) -> Step:
    kinds = {field.name: field for field in dataclasses.fields(step)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for parameter in parameters:
        key, equals, text = parameter.partition("=")
        if key not in kinds or not equals:
            raise UsageError(
                f"a parameter of the step {name!r} must be one of "
                f"{', '.join(f'{known}=VALUE' for known in kinds) or 'none at all'}, got "
                f"{parameter!r} in --clean. Correct it."
            )
        values[key] = _value(name, key, text, type(kinds[key].default))
    return step(**values)


def _value(name: str, key: str, text: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (ValueError, KeyError):
        raise UsageError(
            f"the parameter {key} of the step {name!r} must be of type {kind.__name__}, got "
            f"{text!r} in --clean. Correct it."
        ) from None
