"""Neighbouring letters change places, as fingers do on a keyboard."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.transforms.text.draws import Draws
from reader.transforms.text.letters import change_words, part, pick


def char_swap(text: Any, draws: Draws) -> Any:
    """[n] string: in a tenth of the words two neighbouring letters change places.

    "Swap" of Belinkov and Bisk, "Synthetic and Natural Noise Both Break Neural Machine Translation"
    (2018, arXiv 1711.02173), section 4.2: neither the first nor the last letter moves, so words of
    fewer than 4 stay as they are. They swapped in every word; for augmentation a tenth is enough.

    Args:
        text: [n] string, UTF-8; a letter is a Unicode code point.
        draws: Of these texts.
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
