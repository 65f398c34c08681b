"""Tokens are hidden behind the id of what the tokenizer does not know."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.records.vocabulary import Vocabulary
from reader.transforms.text.draws import Draws
from reader.transforms.text.words import SHARE


def token_masking(ids: Any, keys: Any, number: int, vocabulary: Vocabulary) -> Any:
    """[n, ragged] int64: every token becomes the unknown id with probability 0.1.

    Word dropout of Bowman et al., "Generating Sentences from a Continuous Space" (2016, arXiv
    1511.06349, section 3.1), at the share of EDA. Where the tokenizer knows everything, the id of
    padding takes its place, and a model that looks past padding sees nothing there.

    Args:
        ids: [n, ragged] int64.
        keys: [n] uint64, from which the random numbers of a record are drawn.
        number: The place of this transform among others, so that each draws numbers of its own.
        vocabulary: Has the ids.
    """
    hidden = vocabulary.padding if vocabulary.unknown_id is None else vocabulary.unknown_id
    numbers = Draws(keys).stream(number).each(ids)
    values = ids.flat_values
    masked = tf.where(numbers < SHARE, tf.constant(hidden, tf.int64), values)
    return ids.with_flat_values(masked)
