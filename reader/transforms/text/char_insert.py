"""A letter too much, as in hasty typing."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.transforms.text.draws import Draws
from reader.transforms.text.letters import change_words, part, pick


def char_insert(text: Any, draws: Draws) -> Any:
    """[n] string: in a tenth of the words a letter of the word is inserted anywhere in it.

    Taking the letter from the word keeps it in the script of the text, whatever that is; a table
    of neighbours on a keyboard (the "Key" noise of Belinkov and Bisk, 2018, arXiv 1711.02173)
    would know one layout.

    Args:
        text: [n] string, UTF-8; a letter is a Unicode code point.
        draws: Of these texts.
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
