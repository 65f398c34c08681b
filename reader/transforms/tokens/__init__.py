"""What may be done to token ids between their record and the batch; one file per transform.

To add one: write a file, and name it in an augmentation of the kinds of sets that it is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reader.records.vocabulary import Vocabulary
from reader.transforms.tokens.token_dropout import token_dropout
from reader.transforms.tokens.token_masking import token_masking

# ([n, ragged] int64, [n] uint64 keys, number of the transform, vocabulary) -> [n, ragged] int64
TokenTransform = Callable[[Any, Any, int, Vocabulary], Any]

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

__all__ = ["TOKEN_AUGMENTATIONS", "TokenTransform"]
