"""The tokenizer of a set, for texts that are not in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foundation.storage import Place
from reader.records.vocabulary import HUGGING_FACE, SENTENCE_PIECE
from shard_format import DamageError, ShardSetError
from shard_format.tokenizer_limits import check_tokenizer, read_tokenizer_file

# texts -> the ids of each
Encode = Callable[[Sequence[str]], list[list[int]]]


def read_tokenizer(root: Place) -> tuple[str, bytes]:
    """(name, content) of the tokenizer file of a set.

    Raises:
        ShardSetError: The set has none.
        DamageError: It asks for too much, as none of a set does.
    """
    for name in (HUGGING_FACE, SENTENCE_PIECE):
        try:
            return name, read_tokenizer_file(root / name)
        except FileNotFoundError:
            continue
        except ValueError as error:
            raise DamageError(
                f"Cannot read the tokenizer {root / name}: {error}. Copy the set again."
            ) from error
    raise ShardSetError(
        f"No tokenizer ({HUGGING_FACE} or {SENTENCE_PIECE}) in {root}. Copy the whole set."
    )


def make_encoder(name: str, content: bytes) -> Encode:
    """What encodes texts as preprocessing does: no special tokens, no padding, nothing cut.

    Args:
        name: Name of the file: it tells the library.
        content: Bytes of the file.

    Raises:
        DamageError: It cannot be read.
    """
    readers = {HUGGING_FACE: _hugging_face, SENTENCE_PIECE: _sentence_piece}
    try:
        check_tokenizer(content)
        return readers[name](content)
    except Exception as error:  # the packages raise bare Exceptions
        raise DamageError(f"Cannot read the tokenizer {name}: {error}. Copy it again.") from error


def _hugging_face(content: bytes) -> Encode:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True

    def encode(texts: Sequence[str]) -> list[list[int]]:
        encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [list(one.ids) for one in encoded]

    return encode


def _sentence_piece(content: bytes) -> Encode:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(content)

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [list(ids) for ids in processor.encode(list(texts), out_type=int)]

    return encode
