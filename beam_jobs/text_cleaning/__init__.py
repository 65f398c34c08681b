"""Cleaning steps on documents, by their name in --clean.

A step is one file here and one line in STEPS. It may change documents, leave some out, or report
something of them; `base.Texts` is what it works on. Order and parameters are the user's.
"""

from __future__ import annotations

from beam_jobs.text_cleaning.base import Applied, Measures, Step, Texts
from beam_jobs.text_cleaning.length import Length
from beam_jobs.text_cleaning.nfc import Nfc
from beam_jobs.text_cleaning.recipes import parse_recipe
from beam_jobs.text_cleaning.whitespace import Whitespace

STEPS: dict[str, type[Step]] = {
    "nfc": Nfc,
    "whitespace": Whitespace,
    "length": Length,
}


def make_steps(recipe: str) -> tuple[Applied, ...]:
    """The steps of --clean, in order.

    Raises:
        UsageError: A step or a parameter is unknown, or a value is of another kind.
    """
    return parse_recipe(recipe, STEPS)


__all__ = ["STEPS", "Applied", "Measures", "Step", "Texts", "make_steps"]
