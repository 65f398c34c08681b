"""Texts in a language that few other records of the set have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.audit.audited_set import AuditedSet
from beam_jobs.audit.checks.base import Check, flagged
from beam_jobs.text.cleaning.language import UNKNOWN, Language

_LEAST_CHARACTERS = 40  # of shorter texts the language is a guess


def _odd_languages(audited: AuditedSet, threshold: float) -> pa.Table | None:
    column, scores, chars = (
        audited.column("language"),
        audited.numbers("language_score"),
        audited.numbers("chars"),
    )
    if column is None or scores is None or not len(column):
        return None
    languages = column.combine_chunks().dictionary_encode()
    codes = np.asarray(pc.fill_null(languages.indices, -1), np.int64)
    names = languages.dictionary.to_pylist()
    sure = (scores >= Language.min_score) & (codes >= 0)
    if chars is not None:
        sure &= chars >= _LEAST_CHARACTERS
    shares = np.bincount(codes[sure], minlength=len(names)) / max(1, int(sure.sum()))
    odd = np.array([name != UNKNOWN for name in names], bool) & (shares < threshold)
    rows = np.flatnonzero(sure & odd[codes])
    rows = rows[np.lexsort((-scores[rows], shares[codes[rows]]))]
    return flagged(rows, shares[codes[rows]], other=[names[one] for one in codes[rows].tolist()])


# The probability of a language counts from that on from which `--languages` takes it.
ODD_LANGUAGE = Check(
    "Texts in an odd language",
    f"Fewer than {{0:g}} of the texts are in this language. Counted are texts of at least "
    f"{_LEAST_CHARACTERS} characters whose language has a probability of {Language.min_score} "
    "or more.",
    0.05,
    _odd_languages,
)
