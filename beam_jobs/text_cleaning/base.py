"""What a cleaning step on documents is, and the documents while they are cleaned.

Work is done on whole columns: what many rules need (words, lines, lengths) is computed once for all
of them, by kernels of Arrow and numpy that release the interpreter's lock. A step must treat every
document by itself, for which documents share a batch depends on how the work is cut.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray
from beam_jobs.rejects import FILTER, Reject

BoolArray = npt.NDArray[np.bool_]


class Texts:
    """The documents of a batch that are still in, and why others are not.

    Args:
        batch: The columns of `beam_jobs.documents.base.DOCUMENT_FIELDS`.

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
        self.rejects: list[tuple[int, Reject]] = []

    @property
    def text(self) -> pa.LargeStringArray:
        """[n] large_string, the documents as they are now."""
        return self.measured.text

    def __len__(self) -> int:
        return len(self.rows)

    def replace(self, text: pa.Array) -> None:
        """Puts other text in the place of every document; [n] large_string."""
        self.measured = Measures(text.cast(pa.large_string()))

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
        if not out.any():
            return
        for i in np.flatnonzero(out).tolist():
            row = int(self.rows[i])
            stage = FILTER if filtered else "prepare"
            original = self._originals[row].as_py()
            self.rejects.append((row, Reject(stage, reason, detail(i), original)))
        inside = ~out
        mask = pa.array(inside)
        self.rows = self.rows[inside]
        self.is_html = self.is_html[inside]
        self.columns = {name: column.filter(mask) for name, column in self.columns.items()}
        self.measured = Measures(self.text.filter(mask))


class Measures:
    """What many rules need to know of some documents, computed when it is first asked for.

    Args:
        text: [n] large_string without nulls.
    """

    def __init__(self, text: pa.LargeStringArray) -> None:
        self.text = text

    @cached_property
    def chars(self) -> IntArray:
        """[n] int64, Unicode code points of each document."""
        return np.asarray(pc.utf8_length(self.text).to_numpy(zero_copy_only=False), np.int64)

    @cached_property
    def words(self) -> pa.LargeListArray:
        """[n] lists of what stands between runs of white space, without empty ones."""
        trimmed = pc.utf8_trim_whitespace(self.text)
        split = pc.utf8_split_whitespace(trimmed)
        return pc.if_else(pc.equal(trimmed, ""), pa.scalar([], split.type), split)

    @cached_property
    def word_counts(self) -> IntArray:
        """[n] int64, words of each document."""
        return np.asarray(pc.list_value_length(self.words).to_numpy(zero_copy_only=False), np.int64)


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
        """{"step": name, parameter: value, ...}."""
        fields: Sequence[dataclasses.Field[Any]] = dataclasses.fields(self.step)  # type: ignore[arg-type]
        values = {field.name: getattr(self.step, field.name) for field in fields}
        return {"step": self.name, **values}
