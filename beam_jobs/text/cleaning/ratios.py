"""Rules about a share: of lines, of words, of characters."""

from __future__ import annotations

from beam_jobs.columns import IntArray
from beam_jobs.text.cleaning.base import Rule
from beam_jobs.text.cleaning.words import BoolArray


def above(reason: str, part: IntArray, whole: IntArray, most: float) -> Rule:
    """Leaves out where part / whole is greater than `most`; never where whole is 0."""
    return _rule(reason, part > most * whole, part, whole)


def at_least(reason: str, part: IntArray, whole: IntArray, bound: float) -> Rule:
    """Leaves out where part / whole is `bound` or greater; never where whole is 0."""
    return _rule(reason, part >= bound * whole, part, whole)


def below(reason: str, part: IntArray, whole: IntArray, least: float) -> Rule:
    """Leaves out where part / whole is less than `least`; never where whole is 0."""
    return _rule(reason, part < least * whole, part, whole)


def at_most(reason: str, part: IntArray, whole: IntArray, bound: float) -> Rule:
    """Leaves out where part / whole is `bound` or less; never where whole is 0."""
    return _rule(reason, part <= bound * whole, part, whole)


def _rule(reason: str, out: BoolArray, part: IntArray, whole: IntArray) -> Rule:
    return Rule(
        reason,
        out & (whole > 0),
        lambda i: f"it is {part[i] / whole[i]:.4f} ({part[i]} of {whole[i]})",
    )
