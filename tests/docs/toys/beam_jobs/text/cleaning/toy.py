"""Leaves out documents with a word."""

from __future__ import annotations

import dataclasses

from beam_jobs.text.cleaning.base import CleaningStep, Rule, Texts


@dataclasses.dataclass(frozen=True)
class Toy(CleaningStep):
    word: str = "toy"

    def __call__(self, texts: Texts) -> None:
        out = texts.measured.containing(self.word)
        texts.leave_out(Rule("toy", out, lambda row: f"it has the word {self.word}"))
