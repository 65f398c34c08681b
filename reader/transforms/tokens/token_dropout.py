"""Tokens are left out: the random deletion of EDA, on token ids."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.records.vocabulary import Vocabulary
from reader.transforms.text.draws import Draws
from reader.transforms.text.words import SHARE


def token_dropout(ids: Any, keys: Any, number: int, vocabulary: Vocabulary) -> Any:
    """[n, ragged] int64: every token stays with probability 0.9; where there are some, one does.

    Wei and Zou (2019, arXiv 1901.11196, section 2) leave out words; tokens are parts of them.

    Args:
        ids: [n, ragged] int64.
        keys: [n] uint64, from which the random numbers of a record are drawn.
        number: The place of this transform among others, so that each draws numbers of its own.
        vocabulary: Unused.
    """
    numbers = ids.with_flat_values(Draws(keys).stream(number).each(ids))
    largest = tf.gather(tf.reduce_max(numbers, axis=1), ids.value_rowids())
    keep = (numbers.flat_values >= SHARE) | (numbers.flat_values == largest)
    return tf.ragged.boolean_mask(ids, ids.with_flat_values(keep))
