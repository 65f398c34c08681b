"""Tokenizers of the Hugging Face library, from a tokenizer.json."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tokenizers
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
from shard_format import InputError

# Set, or the library warns in every forked process. Its threads are one pool per process, however
# many workers share it.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


class HuggingFaceTokenizer(Tokenizer):
    """A tokenizer of the Hugging Face library.

    Args:
        content: Content of the file.
        where: Its path, for messages.

    Raises:
        InputError: It is not such a tokenizer.
    """

    kind = "json"

    def __init__(self, content: bytes, where: str) -> None:
        described = _described(content, where)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(content.decode())
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # a panic of its Rust code is not an Exception
            raise no_tokenizer(f"JSON of something else ({_first_line(error)})", where) from error
        self._where = where
        self.warnings = _switched_off(self._tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self.vocabulary = self._vocabulary(described["model"])

    @override
    def encode(self, texts: Sequence[str]) -> list[Ids]:
        try:
            encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # see above
            raise InputError(
                f"The tokenizer {self._where} failed on a text: {_first_line(error)}. Use one with "
                "an unknown token, or one on bytes."
            ) from error
        return [np.array(one.ids, np.int32) for one in encoded]

    @override
    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    @override
    def find(self, token: str) -> int | None:
        number: int | None = self._tokenizer.token_to_id(token)
        return number

    def _vocabulary(self, model: dict[str, Any]) -> Vocabulary:
        added = self._tokenizer.get_added_tokens_decoder()
        unknown = model.get("unk_id")
        if unknown is None and model.get("unk_token") is not None:
            unknown = self.find(model["unk_token"])
        return Vocabulary(
            # Ids may have gaps, but a model has a row for each.
            size=max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1,
            unknown=unknown,
            pad=first_of(PAD_TOKENS, self.find),
            end=first_of(END_TOKENS, self.find),
            special=[one.content for _, one in sorted(added.items()) if one.special],
        )


def _described(content: bytes, where: str) -> dict[str, Any]:
    try:
        described = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise no_tokenizer(f"broken JSON ({error})", where) from error
    if not isinstance(described, dict) or not isinstance(described.get("model"), dict):
        keys = ", ".join(map(repr, list(described)[:5])) if described else "nothing"
        raise no_tokenizer(f"JSON without a model (it begins with {keys})", where)
    return described


def _switched_off(tokenizer: tokenizers.Tokenizer) -> tuple[str, ...]:
    warnings = []
    if tokenizer.truncation:
        length = tokenizer.truncation.get("max_length")
        warnings.append(f"the tokenizer's own truncation to {length} tokens is switched off")
    if tokenizer.padding:
        warnings.append("the tokenizer's own padding is switched off")
    return tuple(warnings)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
