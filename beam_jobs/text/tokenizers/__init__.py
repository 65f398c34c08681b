"""Tokenizers: those of the two libraries whose files can be given, and training of new ones."""

from __future__ import annotations

from beam_jobs.text.tokenizers.base import Ids, Tokenizer, Vocabulary
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, load_manifest, naming
from shard_format.tokenizer_limits import check_ids, read_tokenizer_file


def load_tokenizer(path: Place) -> Tokenizer:
    """The tokenizer in a file; its content decides which library loads it.

    Raises:
        InputError: It is no regular file, cannot be read, is no tokenizer, or asks for too much.
    """
    try:
        if storage.stat(path) is None and storage.exists(path):
            raise InputError(f"--tokenizer {path} is not a regular file. Name a tokenizer file.")
        content = read_tokenizer_file(path)
        tokenizer = _loaded(content, path)
        check_ids(tokenizer.vocabulary.size)
    except OSError as error:
        raise InputError(
            f"Cannot read the --tokenizer {path}: {error.strerror}. Check the path."
        ) from error
    except ValueError as error:
        raise InputError(
            f"The --tokenizer {path} cannot be used: {error}. Name another one."
        ) from error
    return tokenizer


def tokenizer_of_set(folder: Place, generation: int | None) -> Place | None:
    """The file of the tokenizer that a set has, in one of its generations; None without one."""
    files = load_manifest(folder, generation).files
    return next((folder / name for name in naming.TOKENIZERS.values() if name in files), None)


def _loaded(content: bytes, path: Place) -> Tokenizer:
    # Both libraries take a while to load, and most jobs need one of them or none.
    if content.lstrip()[:1] in (b"{", b"["):
        from beam_jobs.text.tokenizers.hugging_face import HuggingFaceTokenizer

        return HuggingFaceTokenizer(content, str(path))
    from beam_jobs.text.tokenizers.sentence_piece import SentencePieceTokenizer

    return SentencePieceTokenizer(content, str(path))


__all__ = ["Ids", "Tokenizer", "Vocabulary", "load_tokenizer", "tokenizer_of_set"]
