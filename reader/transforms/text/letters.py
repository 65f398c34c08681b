"""Typing errors: letters that change places, are inserted or left out, in some of the words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reader.lazy_tensorflow import tf
from reader.transforms.text.draws import Draws
from reader.transforms.text.words import choose, join_words, num_changed, split_words


def change_words(
    text: Any, draws: Draws, min_chars: int, change: Callable[[Any, Any, Any], Any]
) -> Any:
    """[n] string: in each text a tenth of the words, at least one, changed.

    Args:
        text: [n] string, UTF-8.
        draws: Random numbers of these texts.
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


def char_swap(text: Any, draws: Draws) -> Any:
    """[n] string: in a tenth of the words two neighbouring letters change places.

    "Swap" of Belinkov and Bisk, "Synthetic and Natural Noise Both Break Neural Machine Translation"
    (2018, arXiv 1711.02173), section 4.2: neither the first nor the last letter moves, so words of
    fewer than 4 stay as they are. They swapped in every word; for augmentation a tenth is enough.

    Args:
        text: [n] string, UTF-8; a letter is a Unicode code point.
        draws: Random numbers of these texts.
    """
    return change_words(text, draws, 4, _swap)


def _swap(words: Any, chars: Any, random: Any) -> Any:
    first = 1 + pick(random[:, 0], chars - 3)
    return tf.strings.join(
        [
            part(words, tf.zeros_like(first), first),
            part(words, first + 1, first + 2),
            part(words, first, first + 1),
            part(words, first + 2, chars),
        ]
    )


def char_insert(text: Any, draws: Draws) -> Any:
    """[n] string: in a tenth of the words a letter of the word is inserted anywhere in it.

    Taking the letter from the word keeps it in the script of the text, whatever that is; a table
    of neighbours on a keyboard (the "Key" noise of Belinkov and Bisk, 2018, arXiv 1711.02173)
    would know one layout.

    Args:
        text: [n] string, UTF-8; a letter is a Unicode code point.
        draws: Random numbers of these texts.
    """
    return change_words(text, draws, 1, _insert)


def _insert(words: Any, chars: Any, random: Any) -> Any:
    place, letter = pick(random[:, 0], chars + 1), pick(random[:, 1], chars)
    return tf.strings.join(
        [
            part(words, tf.zeros_like(place), place),
            part(words, letter, letter + 1),
            part(words, place, chars),
        ]
    )


def char_delete(text: Any, draws: Draws) -> Any:
    """[n] string: in a tenth of the words one letter is left out; words of one letter stay.

    One of the omissions that Belinkov and Bisk found in natural errors (2018, arXiv 1711.02173,
    section 4.1).

    Args:
        text: [n] string, UTF-8; a letter is a Unicode code point.
        draws: Random numbers of these texts.
    """
    return change_words(text, draws, 2, _delete)


def _delete(words: Any, chars: Any, random: Any) -> Any:
    place = pick(random[:, 0], chars)
    return tf.strings.join(
        [part(words, tf.zeros_like(place), place), part(words, place + 1, chars)]
    )
