"""What a tokenizer is here, whatever library it comes from, and how a file of one is known.

Documents come from strangers: one that spells out "</s>" has those four characters in it, not the
end of a document. So special tokens are never found in text, and a tokenizer's own truncation,
padding and templates ([CLS] ... [SEP]) are left out: what is stored is the text, all of it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shard_format import InputError

Ids = npt.NDArray[np.int32]

# What ends a document, in the tokenizers of the field; the first that there is.
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
        unknown: What stands for text it has no token for; None if there is no such text.
        pad: What fills sequences up; None if it has none.
        end: What ends a document; None if it has none that is known.
        special: Tokens that are not text, by name.
    """

    size: int
    unknown: int | None
    pad: int | None
    end: int | None
    special: dict[str, int]


class Tokenizer(abc.ABC):
    """A tokenizer that was loaded.

    Attributes:
        kind: How its file is called in a set, see `TOKENIZER_FILES`.
        vocabulary: Its ids.
        notes: What the user should be told of it.
    """

    kind: str
    vocabulary: Vocabulary
    notes: tuple[str, ...] = ()

    @abc.abstractmethod
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of every text; [tokens] int32 each.

        Raises:
            InputError: It has no id for something in a text.
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
            name: What the user calls it, or None to take the usual one.

        Raises:
            InputError: There is none.
        """
        found = self.vocabulary.end if name is None else self.find(name)
        if found is not None:
            return found
        special = list(self.vocabulary.special)
        listed = ", ".join(map(repr, special[:_SHOWN])) + (", ..." if special[_SHOWN:] else "")
        got = f"no token {name!r}" if name is not None else f"none of {', '.join(END_TOKENS)}"
        raise InputError(
            f"--pack needs a token that ends a document, got {got} in the tokenizer. "
            f"Its special tokens are {listed or 'none'}: name one with --end-token."
        )


def first_of(names: Sequence[str], find: Callable[[str], int | None]) -> int | None:
    """The id of the first token that there is."""
    return next((number for name in names if (number := find(name)) is not None), None)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file, told by its content.

    Raises:
        InputError: The file cannot be read, or there is none in it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"--tokenizer must be a file that can be read, got '{error.strerror}' for {path}. "
            "Check the path."
        ) from error
    # Both libraries take a while to load, and most jobs need one of them or none.
    if content.lstrip()[:1] in (b"{", b"["):
        from beam_jobs.text.tokenizing.hugging_face import HuggingFaceTokenizer

        return HuggingFaceTokenizer(content, str(path))
    from beam_jobs.text.tokenizing.sentence_piece import SentencePieceTokenizer

    return SentencePieceTokenizer(content, str(path))


def no_tokenizer(found: str, where: str) -> InputError:
    """What to say of a file that holds something else."""
    return InputError(
        "--tokenizer must be a tokenizer.json of Hugging Face tokenizers or a SentencePiece model, "
        f"got {found} in {where}. Name the file that belongs to the model."
    )
