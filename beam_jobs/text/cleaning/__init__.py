"""Cleaning steps on documents, by their name in --clean.

    base        the interface of a step, and the documents that it works on
    words       their words, lines and paragraphs
    recipes     from --clean to steps
    files       files of the user that steps need

A step is one file here and one line in STEPS. It may change documents, leave some out, or report
something about them; the user chooses the order and the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam_jobs.text.cleaning.base import Applied, Measures, Step, Texts, versions
from beam_jobs.text.cleaning.c4 import C4
from beam_jobs.text.cleaning.contamination import Contamination
from beam_jobs.text.cleaning.controls import Controls
from beam_jobs.text.cleaning.fineweb import FineWeb
from beam_jobs.text.cleaning.ftfy import Ftfy
from beam_jobs.text.cleaning.gopher_quality import GopherQuality
from beam_jobs.text.cleaning.gopher_repetition import GopherRepetition
from beam_jobs.text.cleaning.html import Html
from beam_jobs.text.cleaning.language import Language
from beam_jobs.text.cleaning.length import Length
from beam_jobs.text.cleaning.masks import MaskCards, MaskEmails, MaskIps, MaskPhones
from beam_jobs.text.cleaning.nfc import Nfc
from beam_jobs.text.cleaning.recipes import for_languages, parse_recipe
from beam_jobs.text.cleaning.stop_words import StopWords
from beam_jobs.text.cleaning.symbols import Symbols
from beam_jobs.text.cleaning.tags import Tags
from beam_jobs.text.cleaning.whitespace import Whitespace

STEPS: dict[str, type[Step]] = {
    "tags": Tags,
    "html": Html,
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
    steps = parse_recipe(recipe, STEPS)
    if languages is not None:
        steps = for_languages(steps, languages)
    if decontaminate:
        last = Contamination(tuple(decontaminate), contamination_words)
        steps = (*steps, Applied("contamination", last))
    return steps


__all__ = ["STEPS", "Applied", "Measures", "Step", "Texts", "make_steps", "versions"]
