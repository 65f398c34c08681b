"""Documents that contain texts of a benchmark."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from typing_extensions import override

from beam_jobs.columns import IntArray, bounds_of
from beam_jobs.text.cleaning.base import CleaningStep, Rule, Texts
from beam_jobs.text.cleaning.files import InputFile, describe_file
from beam_jobs.text.cleaning.words import Words, split_words
from shard_format import InputError

LEAST_WORDS = 8  # Brown et al. 2020, appendix C: N is 8 at least
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing
_SIEVE_BITS = 22  # 4 MiB of bools, which fit into a cache
_MAX_CELL = 1 << 26  # characters; the default of the csv module, 128 KiB, is too low for texts
_EMPTY_LINES = re.compile(r"\n\s*\n")

HashArray = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True)
class Contamination(CleaningStep):
    """Leaves out documents that share a run of words with a benchmark (Brown et al. 2020, app. C).

    Words are compared in lower case, without punctuation and symbols; empty ones are ignored. A
    text of the benchmark with fewer words than a run, but 8 or more, must occur in a document as a
    whole; shorter texts are ignored, since they occur anywhere.

    Attributes:
        files: Files of the benchmark: text, JSON, JSONL, CSV or TSV.
        words: Length of a run.
    """

    files: tuple[str, ...] = dataclasses.field(
        default=(), metadata={"describe": lambda paths: [describe_file(path) for path in paths]}
    )
    words: int = 13
    packages: ClassVar[tuple[str, ...]] = ("orjson", "xxhash")

    def __post_init__(self) -> None:
        self._runs()

    @override
    def __call__(self, texts: Texts) -> None:
        runs, words = self._runs(), _Normal(texts.measured.words)
        shared: dict[int, tuple[str, str]] = {}
        for length in runs.lengths:
            for document, at in words.candidates(runs, length):
                if document not in shared and (place := runs.place(words.run(at, length), length)):
                    shared[document] = (words.run(at, length), place)
        out = np.zeros(len(texts), bool)
        out[list(shared)] = True
        texts.leave_out(Rule("contaminated", out, lambda i: "{!r} is in {}".format(*shared[i])))

    def _runs(self) -> _Runs:
        return _load(tuple(InputFile.at(path) for path in self.files), self.words)


class _Normal:
    """The words of documents in the form that is compared.

    Args:
        words: Words of the documents.
    """

    def __init__(self, words: Words) -> None:
        normal = pc.utf8_lower(words.vocabulary)
        self._vocabulary = pc.replace_substring_regex(normal, r"[\pP\pS\pC\s]+", "")
        size = pc.binary_length(self._vocabulary).to_numpy(zero_copy_only=False)
        kept = size[words.ids] > 0
        self.ids = words.ids[kept]
        self.bounds = bounds_of(words.total(kept))
        spellings = self._vocabulary.cast(pa.large_binary()).to_pylist()
        hashes = (xxhash.xxh3_64_intdigest(spelling) for spelling in spellings)
        self._hashes = np.fromiter(hashes, np.uint64, len(spellings))[self.ids]

    def runs(self, length: int) -> tuple[HashArray, IntArray]:
        """(hashes of all runs of this length within a document, their first words)."""
        count = max(len(self.ids) - length + 1, 0)
        hashes = np.zeros(count, np.uint64)
        for step in range(length):
            hashes *= _FACTOR
            hashes += self._hashes[step : step + count]
        # A run begins at every word of a document but the last few.
        whole = np.ones(len(self.ids), bool)
        for bound in range(1, length):
            ends = self.bounds[1:] - bound
            whole[ends[ends >= self.bounds[:-1]]] = False
        places = np.flatnonzero(whole)
        return hashes[places], places

    def candidates(self, runs: _Runs, length: int) -> list[tuple[int, int]]:
        """(document, first word) of every run that the benchmark may contain, in order."""
        hashes, places = self.runs(length)
        places = places[runs.may_have(hashes, length)]
        documents = np.searchsorted(self.bounds, places, side="right") - 1
        return list(zip(documents.tolist(), places.tolist(), strict=True))

    def run(self, place: int, length: int) -> str:
        """The words of a run."""
        words = self._vocabulary.take(pa.array(self.ids[place : place + length]))
        return " ".join(words.to_pylist())


class _Runs:
    """The runs of words of a benchmark.

    Attributes:
        lengths: Lengths of runs in words, the longest first.
    """

    def __init__(self, files: tuple[InputFile, ...], length: int) -> None:
        texts = [(text, file.name) for file in files for text in _benchmark_texts(file)]
        column = pa.array([text for text, _ in texts], pa.large_string())
        self._words = _Normal(split_words(column))
        self._names = [name for _, name in texts]
        counts = np.diff(self._words.bounds)
        shorter = {int(n) for n in counts if LEAST_WORDS <= n < length}
        self.lengths = sorted(shorter | {length}, reverse=True)
        self._tables: dict[int, tuple[HashArray, IntArray, npt.NDArray[np.bool_]]] = {}
        for n in self.lengths:
            hashes, places = self._words.runs(n)
            if n < length:
                whole = np.isin(places, self._words.bounds[:-1][counts == n])
                hashes, places = hashes[whole], places[whole]
            hashes, firsts = np.unique(hashes, return_index=True)
            sieve = np.zeros(1 << _SIEVE_BITS, bool)
            sieve[hashes >> np.uint64(64 - _SIEVE_BITS)] = True
            self._tables[n] = (hashes, places[firsts], sieve)
        if not any(len(hashes) for hashes, _, _ in self._tables.values()):
            raise InputError(
                f"--decontaminate found no text of {LEAST_WORDS} words or more in "
                f"{', '.join(file.path for file in files) or 'no file'}. Correct it."
            )

    def may_have(self, hashes: HashArray, length: int) -> npt.NDArray[np.bool_]:
        """[k] bool, which hashes are those of a run of the benchmark."""
        known, _, sieve = self._tables[length]
        likely = sieve[hashes >> np.uint64(64 - _SIEVE_BITS)]
        likely[likely] = np.isin(hashes[likely], known)
        return likely

    def place(self, run: str, length: int) -> str | None:
        """The name of the file that contains a run, if any."""
        known, places, _ = self._tables[length]
        words = _Normal(split_words(pa.array([run], pa.large_string())))
        at = int(np.searchsorted(known, words.runs(length)[0][0]))
        if self._words.run(int(places[at]), length) != run:
            return None
        text = int(np.searchsorted(self._words.bounds, places[at], side="right")) - 1
        return self._names[text]


@functools.lru_cache(maxsize=2)
def _load(files: tuple[InputFile, ...], length: int) -> _Runs:
    return _Runs(files, length)


def _benchmark_texts(file: InputFile) -> Iterator[str]:
    """Every text of a file, by the suffix of its name.

    Of .jsonl and .json every string at any depth, but no key; of .csv and .tsv every cell; of any
    other file the paragraphs between empty lines.

    Raises:
        InputError: The file is unreadable, not UTF-8, or not of the format of its suffix.
    """
    text = file.text()
    kind = PurePath(file.path).suffix.lower()
    if kind == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield from _strings(_json(file, line, f"line {number}"))
    elif kind == ".json":
        yield from _strings(_json(file, text, "the file"))
    elif kind in (".csv", ".tsv"):
        yield from _cells(file, text, "\t" if kind == ".tsv" else ",")
    else:
        yield from _EMPTY_LINES.split(text)


def _json(file: InputFile, text: str, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"Invalid JSON in {where} of the --decontaminate file {file.path}: {error}. Correct "
            "or rename it."
        ) from None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _cells(file: InputFile, text: str, delimiter: str) -> Iterator[str]:
    before = csv.field_size_limit(_MAX_CELL)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            yield from row
    except csv.Error as error:
        raise InputError(
            f"A bad row in the --decontaminate file {file.path}: {error}. Correct or rename it."
        ) from None
    finally:
        csv.field_size_limit(before)
