"""The interface of tokenizers of any library.

Documents are untrusted: "</s>" in a text is four characters, not the end of a document. So special
tokens are never found in text, and the truncation, padding and templates ([CLS] ... [SEP]) of a
tokenizer are switched off: the whole text is stored and nothing else.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shard_format import InputError

Ids = npt.NDArray[np.int32]

# Names of the token that ends a document, in common tokenizers; the first one found is taken.
END_TOKENS = (
    *("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<|eos|>", "[EOS]", "<EOS>"),
    *("<\uff5cend\u2581of\u2581sentence\uff5c>", "[SEP]", "<sep>"),
)
PAD_TOKENS = ("<pad>", "[PAD]", "<|pad|>", "<|padding|>", "<PAD>")
_SHOWN = 20  # special tokens in a message


class Vocabulary(NamedTuple):
    """The ids of a tokenizer.

    Attributes:
        size: One more than the largest id.
        unknown: The id for text without a token; None if there is no such text.
        pad: The id that fills up sequences; None if there is none.
        end: The id that ends a document; None if no token has a known name.
        special: Names of the tokens that are not text, in the order of their ids.
    """

    size: int
    unknown: int | None
    pad: int | None
    end: int | None
    special: list[str]

    def described(self) -> dict[str, int | None]:
        """The ids, as a manifest has them."""
        return {"size": self.size, "unknown": self.unknown, "pad": self.pad, "end": self.end}


class Tokenizer(abc.ABC):
    """A loaded tokenizer.

    Attributes:
        kind: Key of `shard_format.naming.TOKENIZERS`, which names its file in a set.
        vocabulary: Its ids.
        warnings: For the user.
    """

    kind: str
    vocabulary: Vocabulary
    warnings: tuple[str, ...] = ()

    @abc.abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of every text; [tokens] int32 each.

        Raises:
            InputError: It has no id for a part of a text.
        """

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids."""

    @abc.abstractmethod
    def find(self, token: str) -> int | None:
        """The id of a token by its name; None if there is none."""

    def end_token(self, name: str | None) -> int:
        """The id that ends a document.

        Args:
            name: Name of the token; None for one of the common names.

        Raises:
            InputError: There is none.
        """
        end = self.vocabulary.end if name is None else self.find(name)
        if end is not None:
            return end
        special = self.vocabulary.special
        listed = ", ".join(map(repr, special[:_SHOWN])) + (", ..." if special[_SHOWN:] else "")
        got = f"token {name!r}" if name is not None else f"one of {', '.join(END_TOKENS)}"
        raise InputError(
            f"The tokenizer has no {got} to end a document, which --pack needs. Its special tokens "
            f"are {listed or 'none'}: name one with --end-token."
        )


def first_of(names: Sequence[str], find: Callable[[str], int | None]) -> int | None:
    """The id of the first token that exists."""
    return next((number for name in names if (number := find(name)) is not None), None)


def no_tokenizer(kind: str, where: str) -> InputError:
    """The error for a file that is not a tokenizer."""
    return InputError(
        f"The --tokenizer {where} is {kind}, not a tokenizer.json of Hugging Face tokenizers or a "
        "SentencePiece model. Name the file that belongs to the model."
    )
