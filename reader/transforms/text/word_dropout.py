"""Words are left out: the random deletion of EDA."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.transforms.text.draws import Draws
from reader.transforms.text.words import SHARE, join_words, split_words


def word_dropout(text: Any, draws: Draws) -> Any:
    """[n] string: every word stays with probability 0.9; of a text with words, one always does.

    Args:
        text: [n] string, UTF-8.
        draws: Of these texts.
    """
    words = split_words(text)
    numbers = words.with_flat_values(draws.each(words))
    largest = tf.gather(tf.reduce_max(numbers, axis=1), words.value_rowids())
    keep = (numbers.flat_values >= SHARE) | (numbers.flat_values == largest)
    return join_words(tf.ragged.boolean_mask(words, words.with_flat_values(keep)))
