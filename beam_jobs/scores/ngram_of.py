"""Perplexity under a model of trigrams trained on texts of the wanted kind: NAME=ngram-of:PATH.

The smoothing is interpolated Witten-Bell: p(w | h) = (c(h w) + t(h) p(w | h')) / (c(h) + t(h)),
where t(h) is the number of different words behind h, and h' is h without its first word; below
words is the uniform distribution over the vocabulary and one unknown word (Chen and Goodman 1998,
An Empirical Study of Smoothing Techniques for Language Modeling, section 2.5).

Logarithms are multiples of 2 ** -20, so their sums are exact whatever shares a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs.columns import IntArray
from beam_jobs.options.scores import ScoreSpec
from beam_jobs.scores.base import Scorer, check_parameters, column, digest, files_of, parameter
from beam_jobs.text.cleaning.words import Words, split_words
from foundation import storage
from shard_format import UsageError

_ORDER = 3
_UNITS = 1 << 20
_VERSION = 1
_BEHIND = np.iinfo(np.int64).max  # a last key, behind all others


class _Order(NamedTuple):
    """The n-grams of one length; what follows an n-gram is counted at its row.

    Attributes:
        keys: [k] int64, ascending: row of the first n - 1 words times the size of the vocabulary,
            plus the last word.
        counts: [k] int64, how often each occurs.
        totals: [rows of n - 1] int64, how often any word follows.
        types: [rows of n - 1] int64, how many different ones do.
    """

    keys: IntArray
    counts: IntArray
    totals: IntArray
    types: IntArray


class ReferencePerplexity(Scorer):
    """2 to the power of the mean negative binary logarithm of a word; of few words like a guess.

    The reference is a file or a folder of files: JSON Lines with a text in the field `text` (or
    `field=NAME`), or plain text.
    """

    def __init__(self, spec: ScoreSpec, is_text: bool) -> None:
        check_parameters(spec, "field")
        if not is_text:
            raise UsageError(f"--score {spec}: n-grams score texts, not images. Leave it out.")
        self.features = (column(spec, "float32"),)
        self._field = parameter(spec, "field", "text")
        self._files = files_of(spec.file)
        texts = [text for path in self._files for text in _texts(path, self._field)]
        words = split_words(pa.array(texts, pa.large_string()))
        if not len(words):
            raise UsageError(f"--score {spec}: the reference has no words. Name one with texts.")
        used = np.unique(words.ids)
        self._vocabulary = words.vocabulary.take(pa.array(used))
        self._orders = _counted(words, np.searchsorted(used, words.ids), len(used))

    @override
    def described(self) -> dict[str, Any]:
        files = [digest(path) for path in self._files]
        return {"sha256": files, "field": self._field, "order": _ORDER, "version": _VERSION}

    @override
    def __call__(self, records: Sequence[Any]) -> Sequence[Sequence[Any]]:
        words = split_words(pa.array(records, pa.large_string()))
        logs = np.rint(np.log2(self._probabilities(words)) * _UNITS).astype(np.int64)
        with np.errstate(invalid="ignore"):
            mean = words.total(logs) / _UNITS / words.counts  # NaN without words
        return (np.exp2(-mean).tolist(),)

    def _probabilities(self, words: Words) -> npt.NDArray[np.float64]:
        """[k] the probability of each word after the two before it in its text."""
        known = words.of_spelling(
            "ids", lambda own: pc.index_in(own, self._vocabulary).fill_null(-1)
        )
        ids, size = known.astype(np.int64), len(self._vocabulary)
        place = np.arange(len(ids)) - words.bounds[words.documents]
        first = self._orders[0]
        count = np.where(ids >= 0, first.counts[ids], 0)
        probability = (count + size / (size + 1)) / (first.totals[0] + size)
        rows = ids  # of the n-gram that ends at each word; -1 where the reference has none
        for n, order in enumerate(self._orders[1:], 1):
            before = np.where(place >= n, np.roll(rows, 1), -1)
            keys = np.where((before >= 0) & (ids >= 0), before * size + ids, -1)
            at = np.searchsorted(order.keys, keys)
            rows = np.where(order.keys[at] == keys, at, -1)
            count = np.where(rows >= 0, order.counts[rows], 0)
            total, types = (np.where(before >= 0, of[before], 0) for of in order[2:])
            follows = np.maximum(total + types, 1)
            mixed = (count + types * probability) / follows
            probability = np.where(total > 0, mixed, probability)
        return probability


def _counted(words: Words, ids: IntArray, size: int) -> list[_Order]:
    """The n-grams of texts, of 1 to 3 words."""
    place = np.arange(len(ids)) - words.bounds[words.documents]
    counts = np.bincount(ids, minlength=size)
    total = np.array([len(ids)])
    orders = [_Order(np.arange(size), counts, total, np.array([size]))]
    rows = ids
    for n in range(1, _ORDER):
        ends = np.flatnonzero(place >= n)
        keys, inverse, counts = np.unique(
            rows[ends - 1] * size + ids[ends], return_inverse=True, return_counts=True
        )
        before, contexts = keys // size, len(orders[-1].keys)
        totals = np.bincount(before, counts, contexts).astype(np.int64)
        types = np.bincount(before, minlength=contexts)
        keys, counts = np.append(keys, _BEHIND), np.append(counts, 0)
        orders.append(_Order(keys, counts, totals, types))
        rows = np.full(len(ids), -1)
        rows[ends] = inverse
    return orders


def _texts(path: str, field: str) -> Iterator[str]:
    content = storage.read_bytes(storage.place_of(path)).decode()
    if not path.endswith(".jsonl"):
        yield content
        return
    for number, line in enumerate(filter(str.strip, content.split("\n")), 1):
        value = orjson.loads(line)
        if not isinstance(value, dict) or not isinstance(value.get(field), str):
            raise ValueError(f"record {number} of {path} has no text in {field!r}")
        yield value[field]
