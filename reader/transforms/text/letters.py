"""What the operations on characters share: which words they change, and how words are cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from reader.transforms.text.draws import Draws
from reader.transforms.text.words import choose, join_words, num_changed, split_words


def change_words(
    text: Any, draws: Draws, min_chars: int, change: Callable[[Any, Any, Any], Any]
) -> Any:
    """[n] string: in each text a tenth of the words, at least one, changed.

    Args:
        text: [n] string, UTF-8.
        draws: Of these texts.
        min_chars: Shorter words are never changed; at least 1.
        change: ([m] string, [m] int32 their characters, [m, 2] float32 in [0, 1)) -> [m] string.
            Characters are Unicode code points.
    """
    words = split_words(text)
    chosen = choose(words, draws.stream(0).each(words), num_changed(words.row_lengths()))
    flat = words.flat_values
    chars = tf.strings.length(flat, unit="UTF8_CHAR")
    where = tf.where(chosen & (chars >= min_chars))
    random = tf.stack([draws.stream(1).each(words), draws.stream(2).each(words)], axis=1)
    changed = change(*(tf.gather_nd(values, where) for values in (flat, chars, random)))
    return join_words(words.with_flat_values(tf.tensor_scatter_nd_update(flat, where, changed)))


def part(words: Any, start: Any, stop: Any) -> Any:
    """[m] string: the characters [start, stop) of each word."""
    return tf.strings.substr(words, start, stop - start, unit="UTF8_CHAR")


def pick(random: Any, count: Any) -> Any:
    """[m] int32 in [0, count), from [m] float32 in [0, 1) and [m] int32."""
    drawn = tf.cast(random * tf.cast(count, tf.float32), tf.int32)
    # A random number just below 1 may round up to the count in float32.
    return tf.minimum(drawn, count - 1)
