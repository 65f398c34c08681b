"""Words of a batch of texts: taken apart, swapped or left out at random, put together again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reader.lazy_tensorflow import tf
from reader.transforms.text.draws import Draws

# alpha of EDA: the share of the words of a text that one operation changes. Wei and Zou, "EDA: Easy
# Data Augmentation Techniques for Boosting Performance on Text Classification Tasks" (2019, arXiv
# 1901.11196), section 3.2 and table 3: 0.1 is best or near it for sets of every size.
SHARE = 0.1


def split_words(text: Any) -> Any:
    """[n] string -> [n, ragged] string: the words between white space of any kind."""
    return tf.strings.split(tf.strings.regex_replace(text, r"[\s\pZ]+", " "))


def join_words(words: Any) -> Any:
    """[n, ragged] string -> [n] string, a space between words."""
    return tf.strings.reduce_join(words, axis=-1, separator=" ")


def num_changed(num_words: Any, share: float = SHARE) -> Any:
    """[n] int64: how many words an operation changes, at least one where there is one (EDA)."""
    rounded = tf.cast(tf.cast(num_words, tf.float32) * share, tf.int64)
    return tf.minimum(tf.maximum(rounded, 1), num_words)


def in_random_order(words: Any, draws: Any) -> Any:
    """[number of words] int64: the flat indices of the words, those of each text shuffled.

    Args:
        words: [n, ragged].
        draws: [number of words] float32 in [0, 1), by which each text is sorted.
    """
    # 24 bits of random number behind the number of the text: whole in 53 bits of a float64 up to
    # 2**29 texts a batch.
    keys = tf.cast(words.value_rowids(), tf.float64) + tf.cast(draws, tf.float64)
    return tf.cast(tf.argsort(keys, stable=True), tf.int64)


def places(words: Any) -> Any:
    """[number of words] int64: the place of every word within its text, from 0."""
    rows = words.value_rowids()
    return tf.range(tf.size(rows, tf.int64)) - tf.gather(words.row_starts(), rows)


def choose(words: Any, draws: Any, counts: Any) -> Any:
    """[number of words] bool: in each text as many words as are to be chosen, at random.

    Args:
        words: [n, ragged].
        draws: [number of words] float32; the words with the least are chosen.
        counts: [n] int64.
    """
    order = in_random_order(words, draws)
    wanted = places(words) < tf.gather(counts, words.value_rowids())
    return tf.scatter_nd(order[:, None], tf.cast(wanted, tf.int32), tf.shape(order, tf.int64)) > 0


def word_dropout(text: Any, draws: Draws) -> Any:
    """[n] string: every word stays with probability 0.9; of a text with words, one always does.

    Args:
        text: [n] string, UTF-8.
        draws: Random numbers of these texts.
    """
    words = split_words(text)
    return join_words(without_some(words, draws.each(words)))


def without_some(values: Any, draws: Any) -> Any:
    """[n, ragged]: values that stay with probability 0.9, and at least one of each row with some.

    Args:
        values: [n, ragged].
        draws: [number of values] float32 in [0, 1).
    """
    largest = tf.reduce_max(values.with_flat_values(draws), axis=1)
    keep = (draws >= SHARE) | (draws == tf.gather(largest, values.value_rowids()))
    return tf.ragged.boolean_mask(values, values.with_flat_values(keep))


def stays(draws: npt.NDArray[np.float32], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """[number of values] bool: the values that `without_some` keeps, of rows of [n] lengths."""
    keep = draws >= SHARE
    filled = lengths[lengths > 0]
    if len(filled):
        largest = np.maximum.reduceat(draws, np.cumsum(filled) - filled)
        keep |= draws == np.repeat(largest, filled)
    return keep


def word_swap(text: Any, draws: Draws) -> Any:
    """[n] string: in each text a tenth of the words, at least one, change places with another.

    EDA draws its pairs one after the other, so that a word may wander twice; here they have no
    word in common, which takes no loop. A text of one word is unchanged.

    Args:
        text: [n] string, UTF-8.
        draws: Random numbers of these texts.
    """
    words = split_words(text)
    lengths = words.row_lengths()
    pairs = tf.minimum(num_changed(lengths), lengths // 2)
    order = in_random_order(words, draws.each(words))
    # The first and the second word of this order change places, the third and the fourth, ...
    place = places(words)
    swapped = place < 2 * tf.gather(pairs, words.value_rowids())
    partner = tf.range(tf.size(place, tf.int64)) + 1 - 2 * (place % 2)
    source = tf.gather(order, tf.where(swapped, partner, tf.range(tf.size(place, tf.int64))))
    source = tf.scatter_nd(order[:, None], source, tf.shape(order, tf.int64))
    return join_words(words.with_flat_values(tf.gather(words.flat_values, source)))
