"""What a cleaning step on documents is, and the documents while they are cleaned.

Work is done on whole columns: what many rules need (words, lines, lengths) is computed once for all
of them, by kernels of Arrow and numpy that release the interpreter's lock. A step must treat every
document by itself, for which documents share a batch depends on how the work is cut.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray
from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.text.cleaning.words import (
    BoolArray,
    ByteArray,
    Words,
    buffers,
    count_words,
    matches,
    split_words,
)


class Rule(NamedTuple):
    """A rule, applied.

    Attributes:
        reason: A short constant name, counted in the ledger.
        out: [n], whom it leaves out.
        detail: What was found in document i of [0, n); it never differs from run to run.
    """

    reason: str
    out: BoolArray
    detail: Callable[[int], str]


class Texts:
    """The documents of a batch that are still in, and why others are not.

    Args:
        batch: Has the columns of `beam_jobs.text.payload.DOCUMENT_SCHEMA`.

    Attributes:
        rows: [n] int64, which rows of the batch are still in.
        measured: The measures of the text as it is now.
        is_html: [n] bool, whose text is HTML.
        columns: [n] each: what steps report of a document, by name of an index column.
        rejects: (row of the batch, why it is out).
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._originals = batch["original"]
        self.rows: IntArray = np.arange(batch.num_rows)
        self.measured = Measures(batch["text"])
        self.is_html: BoolArray = np.asarray(batch["is_html"].to_numpy(zero_copy_only=False), bool)
        self.columns: dict[str, pa.Array] = {}
        self.rejects: list[tuple[int, Rejection]] = []

    @property
    def text(self) -> pa.LargeStringArray:
        """[n] large_string, the documents as they are now."""
        return self.measured.text

    def __len__(self) -> int:
        return len(self.rows)

    def replace(self, text: pa.Array) -> None:
        """Puts other text in the place of every document; [n] large_string."""
        self.measured = Measures(text.cast(pa.large_string()))

    def replace_where(self, which: BoolArray, change: Callable[[str], str]) -> None:
        """Puts `change(text)` in the place of those documents for which the [n] `which` holds."""
        if not which.any():
            return
        mask = pa.array(which)
        changed = [change(text) for text in self.text.filter(mask).to_pylist()]
        column = pa.array(changed, pa.large_string())
        self.replace(pc.replace_with_mask(self.text, mask, column))

    def leave_out(
        self,
        out: BoolArray,
        reason: str,
        detail: Callable[[int], str],
        *,
        filtered: bool = True,
    ) -> None:
        """Takes documents out.

        Args:
            out: [n], which of those that are in.
            reason: A short constant name, counted in the ledger.
            detail: What was found in document i of [0, n); it never differs from run to run.
            filtered: Whether a rule leaves out what could be used; otherwise it cannot be used.
        """
        self.leave_out_by([Rule(reason, out, detail)], filtered=filtered)

    def leave_out_by(self, rules: Sequence[Rule], *, filtered: bool = True) -> None:
        """Takes out whom any of the rules leaves out; the first of them is the reason.

        All rules are told by the same documents, so measures are computed once for all of them.
        """
        inside = np.ones(len(self), bool)
        stage = FILTER if filtered else "prepare"
        for rule in rules:
            for i in np.flatnonzero(rule.out & inside).tolist():
                row = int(self.rows[i])
                original = self._originals[row].as_py()
                self.rejects.append(
                    (row, Rejection(rule.reason, rule.detail(i), stage=stage, data=original))
                )
            inside &= ~rule.out
        if inside.all():
            return
        self.rows = self.rows[inside]
        self.is_html = self.is_html[inside]
        mask = pa.array(inside)
        self.columns = {name: column.filter(mask) for name, column in self.columns.items()}
        self.measured = self.measured.filter(inside)


class Measures:
    """What many rules need to know of some documents, computed when it is first asked for.

    Args:
        text: [n] large_string without nulls.
    """

    def __init__(self, text: pa.LargeStringArray) -> None:
        self.text = text

    def filter(self, mask: BoolArray) -> Measures:
        """Those of the documents for which the [n] mask holds, with what is known by now."""
        measures = Measures(self.text.filter(pa.array(mask)))
        if "words" in self.__dict__:
            measures.__dict__["words"] = self.words.filter(mask)
        for name in {"chars", "word_counts", "wide"} & self.__dict__.keys():
            measures.__dict__[name] = self.__dict__[name][mask]
        return measures

    @cached_property
    def chars(self) -> IntArray:
        """[n] int64, Unicode code points of each document."""
        return np.asarray(pc.utf8_length(self.text).to_numpy(zero_copy_only=False), np.int64)

    @cached_property
    def words(self) -> Words:
        """The words of the documents, with their lines and paragraphs."""
        return split_words(self.text)

    @cached_property
    def word_counts(self) -> IntArray:
        """[n] int64, words of each document."""
        return self.words.counts if "words" in self.__dict__ else count_words(self.text)

    @cached_property
    def wide(self) -> BoolArray:
        """[n] bool, which have a character beyond ASCII."""
        return ~np.asarray(pc.string_is_ascii(self.text).to_numpy(zero_copy_only=False), bool)

    @cached_property
    def buffers(self) -> tuple[IntArray, ByteArray]:
        """([n + 1] int64 offsets that begin with 0, the bytes of all documents in UTF-8)."""
        return buffers(self.text)

    @cached_property
    def line_breaks(self) -> IntArray:
        """[n] int64, how many line feeds each document has."""
        offsets, data = self.buffers
        return np.diff(np.searchsorted(np.flatnonzero(data == ord("\n")), offsets))

    def containing(self, text: str) -> BoolArray:
        """[n] bool, which documents have this in them; fast where none has its first byte."""
        if not (self.buffers[1] == text.encode()[0]).any():
            return np.zeros(len(self.text), bool)
        found = pc.match_substring(self.text, text)
        return np.asarray(found.to_numpy(zero_copy_only=False), bool)

    def matching(self, pattern: str) -> BoolArray:
        """[n] bool, in which a regular expression of RE2 is found."""
        return matches(self.text, pattern)


class Step(Protocol):
    """A cleaning step: a frozen dataclass whose fields are its parameters.

    Attributes:
        reports: Columns for the index that it adds to `Texts.columns`.
    """

    reports: ClassVar[tuple[pa.Field, ...]]

    def __call__(self, texts: Texts) -> None:
        """Changes the documents, leaves some out, or reports something of them."""


@dataclasses.dataclass(frozen=True)
class Applied:
    """A step of a job, as the manifest tells it.

    Attributes:
        name: Of the step.
        step: With its parameters.
    """

    name: str
    step: Step

    def described(self) -> dict[str, Any]:
        """{"step": name, parameter: value, ...}; of a file, what it holds and not where it lies."""
        described: dict[str, Any] = {"step": self.name}
        for field in dataclasses.fields(self.step):  # type: ignore[arg-type]
            value = getattr(self.step, field.name)
            tell = field.metadata.get("tell")
            described[field.name] = tell(value) if tell else value
        return described
