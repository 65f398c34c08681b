"""A letter left out, as in hasty typing."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.transforms.text.draws import Draws
from reader.transforms.text.letters import change_words, part, pick


def char_delete(text: Any, draws: Draws) -> Any:
    """[n] string: in a tenth of the words one letter is left out; words of one letter stay.

    One of the omissions that Belinkov and Bisk found in natural errors (2018, arXiv 1711.02173,
    section 4.1).

    Args:
        text: [n] string, UTF-8; a letter is a Unicode code point.
        draws: Of these texts.
    """
    return change_words(text, draws, 2, _delete)


def _delete(words: Any, chars: Any, random: Any) -> Any:
    place = pick(random[:, 0], chars)
    return tf.strings.join(
        [part(words, tf.zeros_like(place), place), part(words, place + 1, chars)]
    )
