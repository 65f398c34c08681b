"""Cleaning steps on documents, by their name in --clean.

    base        the interface of a step, and the documents that it works on
    words       their words, lines and paragraphs
    files       files of the user that steps need

A step is one file here and one line in STEPS. It may change documents, leave some out, or report
something about them; the user chooses the order and the parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from beam_jobs.options.text import DEFAULT_CLEANING
from beam_jobs.options.values import parse_names
from beam_jobs.text.cleaning.base import Applied, CleaningStep, Measures, Texts, versions
from beam_jobs.text.cleaning.c4 import C4
from beam_jobs.text.cleaning.contamination import Contamination
from beam_jobs.text.cleaning.controls import Controls
from beam_jobs.text.cleaning.fineweb import FineWeb
from beam_jobs.text.cleaning.ftfy import Ftfy
from beam_jobs.text.cleaning.gopher_quality import GopherQuality
from beam_jobs.text.cleaning.gopher_repetition import GopherRepetition
from beam_jobs.text.cleaning.html import HtmlToText
from beam_jobs.text.cleaning.language import Language
from beam_jobs.text.cleaning.length import Length
from beam_jobs.text.cleaning.masks import MaskCards, MaskEmails, MaskIps, MaskPhones
from beam_jobs.text.cleaning.nfc import Nfc
from beam_jobs.text.cleaning.stop_words import StopWords
from beam_jobs.text.cleaning.symbols import Symbols
from beam_jobs.text.cleaning.tags import Tags
from beam_jobs.text.cleaning.whitespace import Whitespace
from foundation.wording import did_you_mean
from shard_format import UsageError

STEPS: dict[str, type[CleaningStep]] = {
    "tags": Tags,
    "html": HtmlToText,
    "ftfy": Ftfy,
    "nfc": Nfc,
    "controls": Controls,
    "whitespace": Whitespace,
    "length": Length,
    "language": Language,
    "symbols": Symbols,
    "stop-words": StopWords,
    "gopher-repetition": GopherRepetition,
    "gopher-quality": GopherQuality,
    "c4": C4,
    "fineweb": FineWeb,
    "mask-emails": MaskEmails,
    "mask-phones": MaskPhones,
    "mask-cards": MaskCards,
    "mask-ips": MaskIps,
}


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


def make_steps(
    recipe: str,
    languages: str | None = None,
    decontaminate: Sequence[str] = (),
    contamination_words: int = 13,
) -> tuple[Applied, ...]:
    """The steps of a job, in order.

    Args:
        recipe: The value of --clean.
        languages: The value of --languages: those that the step "language" keeps.
        decontaminate: Files of a benchmark, whose texts the last step looks for.
        contamination_words: Length of a run of words.

    Raises:
        UsageError: A step or a parameter is unknown, or a value has another type.
        InputError: A file cannot be used.
    """
    steps = _parsed(recipe)
    if languages is not None:
        steps = _for_languages(steps, languages)
    if decontaminate:
        last = Contamination(tuple(decontaminate), contamination_words)
        steps = (*steps, Applied("contamination", last))
    return steps


def _parsed(recipe: str) -> tuple[Applied, ...]:
    """The steps of a recipe: STEP[:NAME=VALUE...],... in order."""
    applied: list[Applied] = []
    for part in filter(None, recipe.split(",")):
        name, *parameters = part.strip().split(":")
        if name in RECIPES and not parameters:
            applied += _parsed(RECIPES[name])
            continue
        if name not in STEPS:
            known = [*STEPS, *RECIPES]
            near = did_you_mean(name, known) or "Choose another one. "
            raise UsageError(
                f"--clean names the unknown step {name!r}. {near}Steps: {', '.join(known)}."
            )
        applied.append(Applied(name, _made(name, STEPS[name], parameters)))
    return tuple(applied)


def _for_languages(steps: tuple[Applied, ...], languages: str) -> tuple[Applied, ...]:
    """The same steps, where the step "language" keeps these languages only."""
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


def _made(name: str, step: type[CleaningStep], parameters: list[str]) -> CleaningStep:
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


__all__ = [
    "RECIPES",
    "STEPS",
    "Applied",
    "CleaningStep",
    "Measures",
    "Texts",
    "make_steps",
    "versions",
]
