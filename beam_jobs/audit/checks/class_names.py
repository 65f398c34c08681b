"""Classes whose names look alike, and that may be one class."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa

from beam_jobs.audit.audited_set import AuditedSet
from beam_jobs.audit.checks.base import Check, flagged

_LEAST_LETTERS = 6  # shorter names that differ in a letter are words of their own: shirt, skirt
_NO_LETTER = re.compile(r"[^\w]|_")
_DIGITS = re.compile(r"\d+")


def _alike(audited: AuditedSet, threshold: float) -> pa.Table | None:
    names = audited.finished.class_names
    if not names:
        return None
    classes = sorted(similar_names(names, round(threshold)))
    return flagged(
        [None] * len(classes),
        [float(edits) for edits, _, _ in classes],
        column=[names[one] for _, one, _ in classes],
        other=[names[two] for _, _, two in classes],
    )


def similar_names(names: Sequence[str], edits: int) -> Iterable[tuple[int, int, int]]:
    """(letters that differ, place, place) of names that are equal but for so many letters.

    Case, accents, punctuation, white space and an s at the end do not count. Names that differ in
    numbers are different: they are numbered.

    Args:
        names: Names of classes.
        edits: 0 or 1: whether a letter may be missing, added or another one.
    """
    keys = [_key(name) for name in names]
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        # Two keys are one edit apart only if they are equal without a letter of one, or of each.
        shorter = (f"{key[:at]}{key[at + 1 :]}" for at in range(len(key)))
        for each in {key, *(shorter if edits and len(key) >= _LEAST_LETTERS else ())}:
            by_key[each].append(place)
    pairs = {
        (one, two)
        for places in by_key.values()
        for number, two in enumerate(places)
        for one in places[:number]
    }
    for one, two in pairs:
        first, second = keys[one], keys[two]
        if _DIGITS.findall(first) != _DIGITS.findall(second):
            continue
        if first == second:
            yield 0, one, two
        elif min(len(first), len(second)) >= _LEAST_LETTERS and _one_edit(first, second):
            yield 1, one, two


def _key(name: str) -> str:
    folded = unicodedata.normalize("NFKD", name).casefold()
    letters = _NO_LETTER.sub("", "".join(c for c in folded if not unicodedata.combining(c)))
    return (letters.removesuffix("s") if len(letters) > 2 else letters) or folded


def _one_edit(one: str, two: str) -> bool:
    """Whether a letter of the longer name is another one, or is not in the other name."""
    short, long = sorted((one, two), key=len)
    at = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    same_length = len(short) == len(long)
    return short[at + same_length :] == long[at + 1 :]


SIMILAR_CLASSES = Check(
    "Classes whose names look alike",
    "The names differ by {0:g} letter at most; case, accents, punctuation, white space "
    "and an s at the end do not count.",
    1,
    _alike,
)
