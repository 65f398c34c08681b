"""Which words, runs of words, lines or paragraphs stand more than once in a document.

Runs of n words are named by the pair of names of the two runs of n - 1 words in them, so two of
them have one name if and only if they are equal: no hash, no collision. A run can only stand there
twice if both halves do, so ever fewer are left to be looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beam_jobs.columns import IntArray
from beam_jobs.text.cleaning.words import BoolArray, Spans


class Repeats(NamedTuple):
    """What stands more than once in its document, in groups of equals.

    Attributes:
        places: [r] int64, where: group after group, in each from the first to the last.
        names: [r] int64, the group of each; they rise with the document.
        again: [r] bool, all of a group but the first.
    """

    places: IntArray
    names: IntArray
    again: BoolArray

    @property
    def firsts(self) -> IntArray:
        """[groups] int64, the first row of each group."""
        return np.flatnonzero(~self.again)

    @property
    def sizes(self) -> IntArray:
        """[groups] int64, how many stand in each."""
        return np.diff(np.append(self.firsts, len(self.places)))


def repeated(spans: Spans) -> Repeats:
    """Stretches that stand more than once in one document."""
    spellings = spans.spellings
    size = int(spellings.max()) + 1 if len(spellings) else 1
    return _grouped(spans.documents * size + spellings, np.arange(len(spans)))


def longer(repeats: Repeats, spans: Spans) -> Repeats:
    """From repeated runs of n words, by their first word, to those of n + 1 words."""
    order = np.argsort(repeats.places)
    places, names = repeats.places[order], repeats.names[order]
    follows = np.flatnonzero(np.diff(places) == 1)
    follows = follows[spans.documents[places[follows]] == spans.documents[places[follows + 1]]]
    size = int(names.max()) + 1 if len(names) else 1
    return _grouped(names[follows] * size + names[follows + 1], places[follows])


def _grouped(keys: IntArray, places: IntArray) -> Repeats:
    """Those [k] places whose keys are not the only ones of their kind."""
    if not len(keys):
        return Repeats(places[:0], places[:0], np.zeros(0, bool))
    bits = int(places.max()).bit_length()
    if int(keys.max()).bit_length() + bits < 64:
        # Sorting values takes a tenth of the time of sorting for positions, so these are in them.
        packed = np.sort((keys << bits) | places)
        keys, places = packed >> bits, packed & ((1 << bits) - 1)
    else:
        order = np.lexsort((places, keys))
        keys, places = keys[order], places[order]
    again = np.empty(len(keys), bool)
    again[0] = False
    np.equal(keys[1:], keys[:-1], out=again[1:])
    kept = again.copy()
    kept[:-1] |= again[1:]
    again = again[kept]
    return Repeats(places[kept], np.cumsum(~again) - 1, again)
