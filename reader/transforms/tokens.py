"""What may be done to token ids between their record and the batch.

To add a transform: write a function, and name it in an augmentation of the kinds of sets that it is
for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reader.lazy_tensorflow import tf
from reader.records.vocabulary import SetVocabulary
from reader.transforms.text.draws import Draws
from reader.transforms.text.words import SHARE, without_some

# ([n, ragged] int64, [n] uint64 keys, number of the transform, vocabulary) -> [n, ragged] int64
TokenTransform = Callable[[Any, Any, int, SetVocabulary], Any]


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
    hidden = vocabulary.padding if vocabulary.unknown_id is None else vocabulary.unknown_id
    numbers = Draws(keys).stream(number).each(ids)
    values = ids.flat_values
    masked = tf.where(numbers < SHARE, tf.constant(hidden, tf.int64), values)
    return ids.with_flat_values(masked)


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
