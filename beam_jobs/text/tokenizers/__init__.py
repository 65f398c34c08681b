"""Tokenizers: those of the two libraries whose files can be given, and training of new ones."""

from __future__ import annotations

from beam_jobs.text.tokenizers.base import Ids, Tokenizer, Vocabulary
from shard_format import InputError, storage
from shard_format.storage import Place


def load_tokenizer(path: Place) -> Tokenizer:
    """The tokenizer in a file; its content decides which library loads it.

    Raises:
        InputError: The file cannot be read, or is not a tokenizer.
    """
    try:
        content = storage.read_bytes(path)
    except OSError as error:
        raise InputError(
            f"Cannot read the --tokenizer {path}: {error.strerror}. Check the path."
        ) from error
    # Both libraries take a while to load, and most jobs need one of them or none.
    if content.lstrip()[:1] in (b"{", b"["):
        from beam_jobs.text.tokenizers.hugging_face import HuggingFaceTokenizer

        return HuggingFaceTokenizer(content, str(path))
    from beam_jobs.text.tokenizers.sentence_piece import SentencePieceTokenizer

    return SentencePieceTokenizer(content, str(path))


__all__ = ["Ids", "Tokenizer", "Vocabulary", "load_tokenizer"]
