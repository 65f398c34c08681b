"""Cleans texts that are in no set as those of a set were, by the steps in its manifest.

    clean = TextCleaner(manifest.config)
    clean([("page.html", "<html>...")], are_files=True)      [("...", "")]

A step that leaves documents out leaves out none here: it says which it would have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.corpus.sniffing import HEAD_BYTES, text_format
from beam_jobs.text.cleaning import STEPS, CleaningStep, Texts
from beam_jobs.text.cleaning.base import Rule
from shard_format import ShardSetError


class CleanedText(NamedTuple):
    """A text as a set would have it.

    Attributes:
        text: The cleaned text.
        rejection: Why the set would leave it out; empty if it would not.
    """

    text: str
    rejection: str


class TextCleaner:
    """Applies the cleaning steps of a set.

    Args:
        config: Config of its manifest.

    Raises:
        ShardSetError: This version does not know a step.

    Attributes:
        notes: What is not done, for people.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.notes: list[str] = []
        self._format = str(config.get("format", "auto"))
        self._steps = [
            step for one in config.get("clean", ()) if (step := self._made(one)) is not None
        ]
        if (parts := config.get("dedup_parts", "off")) != "off":
            self.notes.append(f"not done: --dedup-parts {parts}, which compares texts of a corpus")

    def __call__(self, documents: Sequence[tuple[str, str]], are_files: bool) -> list[CleanedText]:
        """Cleans a batch.

        Args:
            documents: (name, text) of each.
            are_files: Whether they are whole files, of which those in HTML are pages.
        """
        is_html = [are_files and self._is_html(name, text) for name, text in documents]
        column = pa.array([text for _, text in documents], pa.large_string())
        texts = _AllTexts(pa.record_batch({"text": column, "is_html": is_html}), [])
        for step in self._steps:
            step(texts)
        return [
            CleanedText(text, texts.reasons.get(row, ""))
            for row, text in enumerate(texts.text.to_pylist())
        ]

    def _is_html(self, name: str, text: str) -> bool:
        if self._format != "auto":
            return self._format == "html"
        return text_format(text[:HEAD_BYTES].encode()[:HEAD_BYTES], name) == "html"

    def _made(self, described: Mapping[str, Any]) -> CleaningStep | None:
        """A step from its description; None for one that needs files that the set does not have."""
        name = described["step"]
        if name == "contamination":
            self.notes.append(
                "not checked: contamination, whose benchmark files are not in the set"
            )
            return None
        if name not in STEPS:
            raise _unknown(name)
        values = {key: value for key, value in described.items() if key != "step"}
        for field in dataclasses.fields(STEPS[name]):  # type: ignore[arg-type]
            if "describe" in field.metadata and values.pop(field.name, None) is not None:
                self.notes.append(
                    f"not checked: {field.name} of {name}, whose file is not in the set"
                )
        try:
            return STEPS[name](**values)
        except TypeError as error:
            raise _unknown(f"{name}, {error}") from error


class _AllTexts(Texts):
    """Documents that all stay in, with the reason why the first step would leave one out."""

    def __init__(self, batch: pa.RecordBatch, originals: Sequence[bytes | None]) -> None:
        super().__init__(batch, originals)
        self.reasons: dict[int, str] = {}

    def leave_out(self, *rules: Rule) -> None:
        """Notes the first reason of each document."""
        for rule in rules:
            for row in np.flatnonzero(rule.out).tolist():
                self.reasons.setdefault(row, f"{rule.reason}: {rule.detail(row)}")


def _unknown(step: str) -> ShardSetError:
    return ShardSetError(
        f"The set was cleaned by a step that this version does not know: {step}. Use the version "
        "of shardmill that built it."
    )
