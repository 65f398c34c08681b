"""Words change places: the random swap of EDA."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.transforms.text.draws import Draws
from reader.transforms.text.words import (
    in_random_order,
    join_words,
    num_changed,
    places,
    split_words,
)


def word_swap(text: Any, draws: Draws) -> Any:
    """[n] string: in each text a tenth of the words, at least one, change places with another.

    EDA draws its pairs one after the other, so that a word may wander twice; here they have no
    word in common, which takes no loop. A text of one word is unchanged.

    Args:
        text: [n] string, UTF-8.
        draws: Of these texts.
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
