"""SentencePiece models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sentencepiece
from typing_extensions import override

from beam_jobs.text.tokenizers.base import (
    END_TOKENS,
    PAD_TOKENS,
    Ids,
    Tokenizer,
    Vocabulary,
    first_of,
    no_tokenizer,
)

_HEAD = 8  # bytes of a file to show


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model; its arguments are those of HuggingFaceTokenizer."""

    kind = "model"

    def __init__(self, content: bytes, where: str) -> None:
        if not content:
            raise no_tokenizer("an empty file", where)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(content)
        except (RuntimeError, ValueError) as error:
            head = repr(content[:_HEAD])[1:]
            raise no_tokenizer(f"a file that begins with {head}", where) from error
        self.vocabulary = self._vocabulary()

    @override
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        encoded = self._processor.encode(list(texts), out_type=int)
        return [np.array(ids, np.int32) for ids in encoded]

    @override
    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode([int(number) for number in ids]))

    @override
    def find(self, token: str) -> int | None:
        number = self._processor.piece_to_id(token)
        return number if self._processor.id_to_piece(number) == token else None

    def _vocabulary(self) -> Vocabulary:
        processor = self._processor
        size = processor.get_piece_size()
        special = filter(processor.is_control, range(size))
        end, pad = processor.eos_id(), processor.pad_id()
        return Vocabulary(
            size=size,
            unknown=processor.unk_id(),
            pad=pad if pad >= 0 else first_of(PAD_TOKENS, self.find),
            end=end if end >= 0 else first_of(END_TOKENS, self.find),
            special=[processor.id_to_piece(number) for number in special],
        )
