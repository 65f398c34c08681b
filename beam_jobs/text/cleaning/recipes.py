"""Parses --clean STEP[:NAME=VALUE...],...: the steps, their order and their parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_jobs.options.text import DEFAULT_CLEANING
from beam_jobs.options.values import parse_names
from beam_jobs.text.cleaning.base import Applied, Step
from beam_jobs.text.cleaning.language import Language
from foundation.wording import did_you_mean
from shard_format import UsageError

# Recipes by name; a name among steps is replaced by its steps.
_REPAIRED = "html,ftfy:entities=true,nfc,controls,whitespace,length"
RECIPES: dict[str, str] = {
    "none": "",
    "default": DEFAULT_CLEANING,
    # Pages in any language: rules that need neither English nor blanks between words.
    "web": f"{_REPAIRED},language,gopher-repetition,fineweb:short_lines=2:line_breaks=1000000",
    # English pages as in FineWeb (Penedo et al. 2024, section 3): language, the rules of
    # MassiveText, those of C4 except for the ends of lines, with datatrove's bounds, and its own.
    "web-en": f"{_REPAIRED},language:only=en,gopher-repetition,gopher-quality,"
    "c4:terminal_punctuation=false:min_words_per_line=3:min_sentences=5,fineweb",
}


def parse_recipe(recipe: str, steps: Mapping[str, type[Step]]) -> tuple[Applied, ...]:
    """The steps of a recipe, in order.

    Args:
        recipe: The value of --clean.
        steps: Every step by its name.

    Raises:
        UsageError: A step or a parameter is unknown, or a value has another type.
    """
    applied: list[Applied] = []
    for part in filter(None, recipe.split(",")):
        name, *parameters = part.strip().split(":")
        if name in RECIPES and not parameters:
            applied += parse_recipe(RECIPES[name], steps)
            continue
        if name not in steps:
            known = [*steps, *RECIPES]
            near = did_you_mean(name, known) or "Choose another one. "
            raise UsageError(
                f"--clean names the unknown step {name!r}. {near}Steps: {', '.join(known)}."
            )
        applied.append(Applied(name, _made(name, steps[name], parameters)))
    return tuple(applied)


def for_languages(steps: tuple[Applied, ...], languages: str) -> tuple[Applied, ...]:
    """The same steps, where the step "language" keeps these languages only.

    Args:
        steps: Steps of a recipe.
        languages: The value of --languages.

    Raises:
        UsageError: There is no such step, or a language is unknown.
    """
    if not any(isinstance(applied.step, Language) for applied in steps):
        raise UsageError(
            "--languages needs the step 'language', which --clean does not have. Add it there."
        )
    only = "+".join(sorted(parse_names("--languages", languages)))
    return tuple(
        Applied(applied.name, dataclasses.replace(applied.step, only=only))
        if isinstance(applied.step, Language)
        else applied
        for applied in steps
    )


def _made(name: str, step: type[Step], parameters: list[str]) -> Step:
    kinds = {field.name: field for field in dataclasses.fields(step)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for parameter in parameters:
        key, equals, text = parameter.partition("=")
        if key not in kinds or not equals:
            raise UsageError(
                f"The step {name!r} in --clean has no parameter {parameter!r}. "
                f"{did_you_mean(key, kinds) if key not in kinds else ''}Its parameters are "
                f"{', '.join(f'{known}=VALUE' for known in kinds) or 'none at all'}."
            )
        values[key] = _value(name, key, text, type(kinds[key].default))
    return step(**values)


def _value(name: str, key: str, text: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        value = kind(text)
        if value != value:
            raise ValueError("NaN is not a bound")
        return value
    except (ValueError, KeyError):
        raise UsageError(
            f"The parameter {key} of the step {name!r} in --clean is {text!r}, not of type "
            f"{kind.__name__}. Correct it."
        ) from None
