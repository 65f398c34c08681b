"""What may be done to a document between its record and the batch.

A transform is a pure function of a batch of texts and of their random numbers, which are drawn
from (seed, epoch, record): in TensorFlow operations on strings, and in Python. A character is a
Unicode code point, a word the characters between white space; what was changed has one space
between its words.

To add one: write a file, add it to TEXT_TRANSFORMS, and name it in an augmentation. Where
LIST_TRANSFORMS has one of the same name, a stream needs no TensorFlow for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from reader.lazy_tensorflow import tf
from reader.transforms.text import lists
from reader.transforms.text.draws import ArrayDraws, Draws
from reader.transforms.text.letters import char_delete, char_insert, char_swap, pick
from reader.transforms.text.synonyms import SynonymLists, Synonyms, synonym_replacement
from reader.transforms.text.words import word_dropout, word_swap

Step = Callable[[Any, Draws], Any]  # ([n] string, their random numbers) -> [n] string
ListStep = Callable[[lists.Texts, ArrayDraws], lists.Texts]  # the same of lists

TEXT_TRANSFORMS: dict[str, Step] = {
    "word_swap": word_swap,
    "word_dropout": word_dropout,
    "char_swap": char_swap,
    "char_insert": char_insert,
    "char_delete": char_delete,
}

LIST_TRANSFORMS: dict[str, ListStep] = {
    "word_swap": lists.word_swap,
    "word_dropout": lists.word_dropout,
    "char_swap": lists.char_swap,
    "char_insert": lists.char_insert,
    "char_delete": lists.char_delete,
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


def make_list_step(names: tuple[str, ...], synonyms: SynonymLists | None) -> ListStep:
    """`make_step` of lists."""
    operations = [LIST_TRANSFORMS[name] for name in names]
    if synonyms is not None and names == WORDS:
        operations.append(partial(lists.synonym_replacement, synonyms=synonyms))

    def step(texts: lists.Texts, draws: ArrayDraws) -> lists.Texts:
        drawn = [lists.pick(random, len(operations)) for random in draws.stream(0).one()]
        chosen, keys, result = np.array(drawn), draws.stream(1).keys, list(texts)
        for number, operation in enumerate(operations):
            where = np.flatnonzero(chosen == number)
            changed = operation([texts[place] for place in where], ArrayDraws(keys[where]))
            for place, text in zip(where, changed, strict=True):
                result[place] = text
        return result

    return step


__all__ = [
    "LIST_TRANSFORMS",
    "TEXT_AUGMENTATIONS",
    "TEXT_TRANSFORMS",
    "ArrayDraws",
    "Draws",
    "ListStep",
    "Step",
    "SynonymLists",
    "Synonyms",
    "make_list_step",
    "make_step",
    "synonym_replacement",
]
