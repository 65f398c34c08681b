"""What may be done to a document between its record and the batch.

A transform is a pure function of a batch of texts and of their random numbers, which are drawn
from (seed, epoch, record), in TensorFlow operations on strings. A character is a Unicode code
point, a word the characters between white space; what was changed has one space between its words.

To add one: write a file, add it to TEXT_TRANSFORMS, and name it in an augmentation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from reader.lazy_tensorflow import tf
from reader.transforms.text.draws import Draws
from reader.transforms.text.letters import char_delete, char_insert, char_swap, pick
from reader.transforms.text.synonyms import Synonyms, synonym_replacement
from reader.transforms.text.words import word_dropout, word_swap

Step = Callable[[Any, Draws], Any]  # ([n] string, their random numbers) -> [n] string

TEXT_TRANSFORMS: dict[str, Step] = {
    "word_swap": word_swap,
    "word_dropout": word_dropout,
    "char_swap": char_swap,
    "char_insert": char_insert,
    "char_delete": char_delete,
}

WORDS = ("word_swap", "word_dropout")  # with a list of synonyms, synonym_replacement too
CHARACTERS = ("char_swap", "char_insert", "char_delete")

# What `augment` may be: steps, of each of which every record takes one operation at random, as
# Wei and Zou (2019, arXiv 1901.11196) do. Their random insertion is left out: it needs synonyms
# of words chosen from the text, and adds what replacement changes already.
TEXT_AUGMENTATIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "none": (),
    "standard": (WORDS,),
    "strong": (WORDS, CHARACTERS),
}


def make_step(names: tuple[str, ...], synonyms: Synonyms | None) -> Step:
    """One operation of these for every text, at random."""
    operations = [TEXT_TRANSFORMS[name] for name in names]
    if synonyms is not None and names == WORDS:
        operations.append(partial(synonym_replacement, synonyms=synonyms))

    def step(text: Any, draws: Draws) -> Any:
        chosen = pick(draws.stream(0).one(), tf.fill(tf.shape(text), len(operations)))
        result = text
        for number, operation in enumerate(operations):
            where = tf.where(chosen == number)
            some = Draws(tf.gather_nd(draws.stream(1).keys, where))
            changed = operation(tf.gather_nd(text, where), some)
            result = tf.tensor_scatter_nd_update(result, where, changed)
        return tf.ensure_shape(result, text.shape)

    return step


__all__ = [
    "TEXT_AUGMENTATIONS",
    "TEXT_TRANSFORMS",
    "Draws",
    "Step",
    "Synonyms",
    "make_step",
    "synonym_replacement",
]
