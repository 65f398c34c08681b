"""The interface of a cleaning step, and the documents that steps work on.

Steps work on whole columns: what many rules need (words, lines, lengths) is computed once, by
kernels of Arrow and numpy that release the interpreter's lock. A step must treat every document by
itself, since which documents share a batch depends on how the work is divided.
"""

from __future__ import annotations

import abc
import dataclasses
import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import BoolArray, ByteArray, IntArray, string_buffers
from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.package_versions import module_versions
from beam_jobs.text.cleaning.words import Words, count_words, matches, split_words


class Rule(NamedTuple):
    """The result of a rule.

    Attributes:
        reason: A short constant name, counted in the ledger.
        out: [n], which documents it leaves out.
        detail: What was found in document i of [0, n); it never differs from run to run.
        stage: FILTER, or "prepare" if the documents are not usable.
        number: Returns the [n] numbers that the rule compares with its bound; NaN where there is
            none. --score keeps them. None for a rule that compares none.
    """

    reason: str
    out: BoolArray
    detail: Callable[[int], str]
    stage: str = FILTER
    number: Callable[[], npt.NDArray[Any]] | None = None


class Texts:
    """The documents of a batch that are still in, and the rejections of the others.

    Args:
        batch: Batch with the columns of `beam_jobs.text.extractor.DOCUMENT_SCHEMA`.
        originals: [rows of the batch] each document as quarantine keeps it; None for nothing.

    Attributes:
        rows: [n] int64, which rows of the batch are still in.
        measured: The measures of the current text.
        is_html: [n] bool, which texts are HTML.
        columns: [n] each: what steps report about a document, by name of an index column.
        rejects: (row of the batch, why it was left out).
        wanted: Reasons of the rules whose numbers are wanted.
        numbers: [n] each: such numbers of the current text, by the reason of a rule.
    """

    wanted: frozenset[str] = frozenset()

    def __init__(self, batch: pa.RecordBatch, originals: Sequence[bytes | None]) -> None:
        self._originals = originals
        self.numbers: dict[str, npt.NDArray[Any]] = {}
        self.rows: IntArray = np.arange(batch.num_rows)
        self.measured = Measures(batch["text"])
        self.is_html: BoolArray = np.array(batch["is_html"], bool)
        self.columns: dict[str, pa.Array] = {}
        self.rejects: list[tuple[int, Rejection]] = []

    @property
    def text(self) -> pa.LargeStringArray:
        """[n] large_string, the current text of the documents."""
        return self.measured.text

    def __len__(self) -> int:
        return len(self.rows)

    def replace(self, text: pa.Array) -> None:
        """Replaces the text of every document by the [n] large_string."""
        self.measured = Measures(text.cast(pa.large_string()))
        self.numbers = {}

    def replace_where(self, which: BoolArray, change: Callable[[str], str]) -> None:
        """Replaces the text by `change(text)` in the documents for which the [n] `which` holds."""
        if not which.any():
            return
        mask = pa.array(which)
        changed = [change(text) for text in self.text.filter(mask).to_pylist()]
        column = pa.array(changed, pa.large_string())
        self.replace(pc.replace_with_mask(self.text, mask, column))

    def leave_out(self, *rules: Rule) -> None:
        """Leaves out the documents that any of the rules leaves out; the first one is the reason.

        All rules apply to the same documents, so measures are computed once.
        """
        inside = np.ones(len(self), bool)
        for rule in rules:
            if rule.number and rule.reason in self.wanted:
                self.numbers[rule.reason] = rule.number()
            for i in np.flatnonzero(rule.out & inside).tolist():
                row = int(self.rows[i])
                data = self._originals[row]
                rejection = Rejection(rule.reason, rule.detail(i), stage=rule.stage, data=data)
                self.rejects.append((row, rejection))
            inside &= ~rule.out
        if inside.all():
            return
        self.rows = self.rows[inside]
        self.is_html = self.is_html[inside]
        mask = pa.array(inside)
        self.columns = {name: column.filter(mask) for name, column in self.columns.items()}
        self.numbers = {name: numbers[inside] for name, numbers in self.numbers.items()}
        self.measured = self.measured.filter(inside)


class Measures:
    """Properties of documents that many rules need, computed at first use.

    Args:
        text: [n] large_string without nulls.
    """

    def __init__(self, text: pa.LargeStringArray) -> None:
        self.text = text

    def filter(self, mask: BoolArray) -> Measures:
        """The documents for which the [n] mask holds, with the properties computed so far."""
        measures = Measures(self.text.filter(pa.array(mask)))
        if "words" in self.__dict__:
            measures.__dict__["words"] = self.words.filter(mask)
        for name in {"chars", "word_counts", "wide"} & self.__dict__.keys():
            measures.__dict__[name] = self.__dict__[name][mask]
        return measures

    @cached_property
    def chars(self) -> IntArray:
        """[n] int64, Unicode code points of each document."""
        return np.asarray(pc.utf8_length(self.text), np.int64)

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
        """[n] bool, which documents have a character beyond ASCII."""
        return ~np.asarray(pc.string_is_ascii(self.text), bool)

    @cached_property
    def buffers(self) -> tuple[IntArray, ByteArray]:
        """([n + 1] int64 offsets that begin with 0, the bytes of all documents in UTF-8)."""
        return string_buffers(self.text)

    @cached_property
    def line_breaks(self) -> IntArray:
        """[n] int64, line feeds in each document."""
        offsets, data = self.buffers
        return np.diff(np.searchsorted(np.flatnonzero(data == ord("\n")), offsets))

    def containing(self, text: str) -> BoolArray:
        """[n] bool, which documents contain this; fast where none has its first byte."""
        if not (self.buffers[1] == text.encode()[0]).any():
            return np.zeros(len(self.text), bool)
        return np.asarray(pc.match_substring(self.text, text), bool)

    def matching(self, pattern: str) -> BoolArray:
        """[n] bool, which documents match a regular expression of RE2 somewhere."""
        return matches(self.text, pattern)


class CleaningStep(abc.ABC):
    """A cleaning step: a frozen dataclass whose fields are its parameters.

    Attributes:
        reports: Columns for the index that it adds to `Texts.columns`.
        packages: Third-party modules whose versions have an effect on its result, other than
            numpy and pyarrow.
    """

    reports: ClassVar[tuple[pa.Field, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def version(self) -> int:
        """Raised whenever a document becomes another one than before with the same parameters."""
        return 1

    @abc.abstractmethod
    def __call__(self, texts: Texts) -> None:
        """Changes the documents, leaves some out, or reports something about them."""


@dataclasses.dataclass(frozen=True)
class Applied:
    """A step of a job.

    Attributes:
        name: Name of the step.
        step: With its parameters.
    """

    name: str
    step: CleaningStep

    def described(self) -> dict[str, Any]:
        """{"step": name, parameter: value, ...} for the manifest; of a file, its content."""
        described: dict[str, Any] = {"step": self.name}
        for field in dataclasses.fields(self.step):  # type: ignore[arg-type]
            value = getattr(self.step, field.name)
            describe = field.metadata.get("describe")
            described[field.name] = describe(value) if describe else value
        return described


def counted(reason: str, out: BoolArray, counts: IntArray, unit: str = "") -> Rule:
    """Leaves out documents by a number of things in them."""
    return Rule(reason, out, lambda i: f"it has {counts[i]}{unit}", number=lambda: counts)


def above(reason: str, part: IntArray, whole: IntArray, bound: float) -> Rule:
    """Leaves out documents with part / whole > `bound`; never where whole is 0."""
    return _share_rule(reason, part > bound * whole, part, whole)


def at_least(reason: str, part: IntArray, whole: IntArray, bound: float) -> Rule:
    """Leaves out documents with part / whole >= `bound`; never where whole is 0."""
    return _share_rule(reason, part >= bound * whole, part, whole)


def below(reason: str, part: IntArray, whole: IntArray, bound: float) -> Rule:
    """Leaves out documents with part / whole < `bound`; never where whole is 0."""
    return _share_rule(reason, part < bound * whole, part, whole)


def at_most(reason: str, part: IntArray, whole: IntArray, bound: float) -> Rule:
    """Leaves out documents with part / whole <= `bound`; never where whole is 0."""
    return _share_rule(reason, part <= bound * whole, part, whole)


def _share_rule(reason: str, out: BoolArray, part: IntArray, whole: IntArray) -> Rule:
    return Rule(
        reason,
        out & (whole > 0),
        lambda i: f"it is {part[i] / whole[i]:.4f} ({part[i]} of {whole[i]})",
        number=lambda: np.where(whole > 0, part / np.maximum(whole, 1), np.nan),
    )


# Modules that decode files, compute on columns and hash, whatever the steps.
_ALWAYS = ("chardet", "pyarrow", "resiliparse", "xxhash")


def versions(steps: Sequence[Applied]) -> dict[str, str]:
    """Versions of all that decides what is staged of a document: packages, and changed steps.

    A step is in it from its version 2 on, so that units of all others keep their keys.
    """
    modules = {*_ALWAYS, *(module for applied in steps for module in applied.step.packages)}
    changed = {
        f"step {applied.name}": str(applied.step.version)
        for applied in steps
        if applied.step.version > 1
    }
    own = {"unicode": unicodedata.unidata_version, **changed}
    return {**module_versions(*sorted(modules)), **own}
