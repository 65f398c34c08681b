"""What may be done to token ids between their record and the batch.

To add a transform: write a function of tensors, and one of arrays in TOKEN_ARRAYS, and name it in
an augmentation of the kinds of sets that it is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from reader.lazy_tensorflow import tf
from reader.records.vocabulary import SetVocabulary
from reader.transforms.text.draws import ArrayDraws, Draws
from reader.transforms.text.words import SHARE, stays, without_some
from shard_format.example_parser import NumberLists

# ([n, ragged] int64, [n] uint64 keys, number of the transform, vocabulary) -> [n, ragged] int64
TokenTransform = Callable[[Any, Any, int, SetVocabulary], Any]
Keys = npt.NDArray[np.uint64]
ArrayTransform = Callable[[NumberLists, Keys, int, SetVocabulary], NumberLists]


def token_dropout(ids: Any, keys: Any, number: int, vocabulary: SetVocabulary) -> Any:
    """[n, ragged] int64: every token stays with probability 0.9; where there are some, one does.

    Wei and Zou (2019, arXiv 1901.11196, section 2) leave out words; tokens are parts of them.

    Args:
        ids: [n, ragged] int64.
        keys: [n] uint64, from which the random numbers of a record are drawn.
        number: The place of this transform among others, so that each draws numbers of its own.
        vocabulary: Unused.
    """
    return without_some(ids, Draws(keys).stream(number).each(ids))


def _dropout_array(
    ids: NumberLists, keys: Keys, number: int, vocabulary: SetVocabulary
) -> NumberLists:
    lengths = np.diff(ids.splits)
    keep = stays(ArrayDraws(keys).stream(number).each(lengths), lengths)
    return NumberLists(ids.values[keep], np.append(0, np.cumsum(keep))[ids.splits])


def token_masking(ids: Any, keys: Any, number: int, vocabulary: SetVocabulary) -> Any:
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
    numbers = Draws(keys).stream(number).each(ids)
    hidden = tf.constant(_hidden(vocabulary), tf.int64)
    masked = tf.where(numbers < SHARE, hidden, ids.flat_values)
    return ids.with_flat_values(masked)


def _masking_array(
    ids: NumberLists, keys: Keys, number: int, vocabulary: SetVocabulary
) -> NumberLists:
    numbers = ArrayDraws(keys).stream(number).each(np.diff(ids.splits))
    return NumberLists(np.where(numbers < SHARE, _hidden(vocabulary), ids.values), ids.splits)


def _hidden(vocabulary: SetVocabulary) -> int:
    return vocabulary.padding if vocabulary.unknown_id is None else vocabulary.unknown_id


# What each transform is in NumPy.
TOKEN_ARRAYS: dict[TokenTransform, ArrayTransform] = {
    token_dropout: _dropout_array,
    token_masking: _masking_array,
}

# What `augment` may be, for each kind of set. Packed sequences keep every token at its place.
TOKEN_AUGMENTATIONS: dict[str, dict[str, tuple[TokenTransform, ...]]] = {
    "tokens": {
        "none": (),
        "standard": (token_dropout,),
        "strong": (token_dropout, token_masking),
    },
    "packed": {
        "none": (),
        "standard": (token_masking,),
    },
}


def transformed(
    ids: NumberLists, keys: Keys, kind: str, augment: str, vocabulary: SetVocabulary
) -> NumberLists:
    """[n] lists of int64 after all transforms of an augmentation.

    Args:
        ids: [n] lists of int64.
        keys: [n] uint64, from which the random numbers of a record are drawn.
        kind: Kind of the set, in `TOKEN_AUGMENTATIONS`.
        augment: Name of the augmentation.
        vocabulary: Has the ids that hide others.
    """
    for number, transform in enumerate(TOKEN_AUGMENTATIONS[kind][augment]):
        ids = TOKEN_ARRAYS[transform](ids, keys, number, vocabulary)
    return ids
