"""Documents that have the texts of a benchmark in them."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from beam_jobs.columns import IntArray
from beam_jobs.text.cleaning.base import Rule, Texts
from beam_jobs.text.cleaning.benchmark_texts import benchmark_texts
from beam_jobs.text.cleaning.files import InputFile, told
from beam_jobs.text.cleaning.words import Words, split_words
from shard_format import InputError

LEAST_WORDS = 8  # Brown et al. 2020, appendix C: N is 8 at least
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing
_SIEVE_BITS = 22  # 4 MiB of bools, which a cache holds

HashArray = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True)
class Contamination:
    """Leaves out documents that share a run of words with a benchmark (Brown et al. 2020, app. C).

    Words are compared in lower case, without punctuation and symbols; what is left empty is no
    word. A text of the benchmark that has fewer words than a run, but 8 or more, must stand in a
    document as a whole; still shorter ones are not looked for, since they stand anywhere.

    Attributes:
        files: Of the benchmark: text, JSON, JSONL, CSV or TSV.
        words: How many in a row.
    """

    files: tuple[str, ...] = dataclasses.field(
        default=(), metadata={"tell": lambda paths: [told(path) for path in paths]}
    )
    words: int = 13
    reports: ClassVar[tuple[pa.Field, ...]] = ()

    def __post_init__(self) -> None:
        self._runs()

    def __call__(self, texts: Texts) -> None:
        """See Step."""
        runs, words = self._runs(), _Normal(texts.measured.words)
        found = {}
        for length in runs.lengths:
            for document, at in words.candidates(runs, length):
                if document not in found and (place := runs.place(words.run(at, length), length)):
                    found[document] = (words.run(at, length), place)
        out = np.zeros(len(texts), bool)
        out[list(found)] = True
        texts.leave_out_by([Rule("contaminated", out, lambda i: "{!r} is in {}".format(*found[i]))])

    def _runs(self) -> _Runs:
        return _load(tuple(InputFile.at(path) for path in self.files), self.words)


class _Normal:
    """The words of documents as they are compared.

    Args:
        words: Of the documents.
    """

    def __init__(self, words: Words) -> None:
        normal = pc.utf8_lower(words.vocabulary)
        self._vocabulary = pc.replace_substring_regex(normal, r"[\pP\pS\pC\s]+", "")
        size = pc.binary_length(self._vocabulary).to_numpy(zero_copy_only=False)
        kept = size[words.ids] > 0
        self.ids = words.ids[kept]
        self.bounds = np.append(0, np.cumsum(words.total(kept)))
        spellings = self._vocabulary.cast(pa.large_binary()).to_pylist()
        hashes = (xxhash.xxh3_64_intdigest(spelling) for spelling in spellings)
        self._hashes = np.fromiter(hashes, np.uint64, len(spellings))[self.ids]

    def runs(self, length: int) -> tuple[HashArray, IntArray]:
        """(hashes of all runs of some words within a document, their first words)."""
        count = max(len(self.ids) - length + 1, 0)
        hashes = np.zeros(count, np.uint64)
        for step in range(length):
            hashes *= _FACTOR
            hashes += self._hashes[step : step + count]
        # Of each document as many as it has words, but for the last few of them.
        whole = np.ones(len(self.ids), bool)
        for bound in range(1, length):
            ends = self.bounds[1:] - bound
            whole[ends[ends >= self.bounds[:-1]]] = False
        places = np.flatnonzero(whole)
        return hashes[places], places

    def candidates(self, runs: _Runs, length: int) -> list[tuple[int, int]]:
        """(document, first word) of every run that the benchmark may have, in order."""
        hashes, places = self.runs(length)
        places = places[runs.may_have(hashes, length)]
        documents = np.searchsorted(self.bounds, places, side="right") - 1
        return list(zip(documents.tolist(), places.tolist(), strict=True))

    def run(self, place: int, length: int) -> str:
        """Some words in a row."""
        words = self._vocabulary.take(pa.array(self.ids[place : place + length]))
        return " ".join(words.to_pylist())


class _Runs:
    """The runs of words of a benchmark.

    Attributes:
        lengths: In words, the longest first.
    """

    def __init__(self, files: tuple[InputFile, ...], length: int) -> None:
        texts = [(text, file.name) for file in files for text in benchmark_texts(file)]
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
                f"--decontaminate must name texts of {LEAST_WORDS} words or more, got none in "
                f"{', '.join(file.path for file in files) or 'no file'}. Correct it."
            )

    def may_have(self, hashes: HashArray, length: int) -> npt.NDArray[np.bool_]:
        """[k] bool, which hashes are those of a run here."""
        known, _, sieve = self._tables[length]
        found = sieve[hashes >> np.uint64(64 - _SIEVE_BITS)]
        found[found] = np.isin(hashes[found], known)
        return found

    def place(self, run: str, length: int) -> str | None:
        """The name of the file that has a run, if one has it."""
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
