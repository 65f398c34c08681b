"""The scores of documents, and the numbers that rules of --clean compare with their bounds.

A number is that of the rule in the job, with its parameters, if no later step has changed the text;
else the rule is applied once more to the text that is stored. Rules that the job does not have are
applied with their defaults.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import TextOptions
from beam_jobs.scores.columns import FAILED, ScoreColumns
from beam_jobs.text.cleaning import STEPS, Applied, Texts
from beam_jobs.text.cleaning.base import Rule
from shard_format import Feature

_STEPS = ("symbols", "stop-words", "gopher-repetition", "gopher-quality", "fineweb")
_STORED = {"int64": "int64", "float64": "float32"}
_SIZES = {"words": "num_words", "characters": "num_characters"}  # the index has "words" itself


class _Applied(Texts):
    """Documents that a step is applied to for the numbers of its rules alone."""

    def __init__(self, texts: Texts) -> None:
        self.measured, self.rows, self.columns, self.numbers = texts.measured, texts.rows, {}, {}

    @override
    def leave_out(self, *rules: Rule) -> None:
        self.numbers |= {rule.reason: rule.number() for rule in rules if rule.number}


class TextScores(ScoreColumns):
    """The columns of --score of documents.

    Args:
        options: The job.
        steps: Its cleaning steps.
    """

    def __init__(self, options: TextOptions, steps: Sequence[Applied]) -> None:
        super().__init__(options, rule_columns(), is_text=True)
        self._rules = frozenset(self.measures) - _SIZES.keys()
        own = {applied.name: applied.step for applied in steps}
        of_rules = {reason: step for reason, (step, _) in _rules().items() if reason in self._rules}
        self._step_of = {
            reason: own.get(step) or STEPS[step]() for reason, step in of_rules.items()
        }

    @override
    def described(self) -> list[dict[str, Any]]:
        steps = {f"{step} {step.version}" for step in self._step_of.values()}
        return [*super().described(), *({"rules": one} for one in sorted(steps))]

    def texts(self, batch: pa.RecordBatch, originals: Sequence[bytes | None]) -> Texts:
        """Documents whose rules keep the numbers that are scores."""
        texts = Texts(batch, originals)
        texts.wanted = self._rules
        return texts

    def columns(self, texts: Texts) -> dict[str, list[Any]]:
        """The scores of cleaned documents; those for which one fails are left out."""
        rows = self.rows(texts.text.to_pylist(), self._measure(texts))
        failures = {i: row for i, row in enumerate(rows) if isinstance(row, Rejection)}
        out = np.zeros(len(texts), bool)
        out[list(failures)] = True
        texts.leave_out(Rule(FAILED, out, lambda i: failures[i].detail, stage="prepare"))
        whole = [self.named(row) for row in rows if not isinstance(row, Rejection)]
        return {one.name: [row[one.name] for row in whole] for one in self.features}

    def _measure(self, texts: Texts) -> list[list[Any]]:
        """[n] for each of `measures`."""
        numbers = {"words": texts.measured.word_counts, "characters": texts.measured.chars}
        numbers |= texts.numbers
        applied = _Applied(texts)
        missing = sorted(self._rules - numbers.keys())
        for step in dict.fromkeys(self._step_of[reason] for reason in missing):
            step(applied)
        numbers = applied.numbers | numbers
        return [numbers[name].tolist() for name in self.measures]


def rule_columns() -> dict[str, Feature]:
    """The columns of all measures, by name."""
    kinds = dict.fromkeys(_SIZES, "int64") | {name: kind for name, (_, kind) in _rules().items()}
    names = {name: _SIZES.get(name, name.replace("-", "_")) for name in kinds}
    return {name: Feature(names[name], kind) for name, kind in kinds.items()}


@functools.cache
def _rules() -> dict[str, tuple[str, str]]:
    """The rules that compare numbers, with their step and the kind of the numbers."""
    rules: dict[str, tuple[str, str]] = {}
    columns = {"text": pa.array([], pa.large_string()), "is_html": pa.array([], pa.bool_())}
    for name in _STEPS:
        applied = _Applied(Texts(pa.record_batch(columns), []))
        STEPS[name]()(applied)
        kinds = {reason: str(of.dtype) for reason, of in applied.numbers.items()}
        rules |= {reason: (name, _STORED[kind]) for reason, kind in kinds.items()}
    return rules
