"""The token ids of a set: how many there are, and which of them are special.

They come from the manifest, or from the tokenizer in the set; the packages that read
tokenizers are loaded here only, for a set whose manifest does not say.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from foundation.storage import Place
from shard_format import DamageError, Manifest, ShardSetError, naming
from shard_format.tokenizer_limits import check_ids, read_tokenizer_file

TRAINING_SPLIT = "train"
HUGGING_FACE, SENTENCE_PIECE = "tokenizer.json", "tokenizer.model"

# What tokenizers in use call the two; the first that a tokenizer has is taken. Of GPT-2, BERT,
# RoBERTa, T5, Llama and their kin; a Hugging Face file names its padding only if it pads itself.
_PAD_TOKENS = ("[PAD]", "<pad>", "<|pad|>", "<|padding|>", "<PAD>")
_UNKNOWN_TOKENS = ("[UNK]", "<unk>", "<|unk|>", "<UNK>")


@dataclasses.dataclass(frozen=True)
class SetVocabulary:
    """The ids of a tokenizer.

    Attributes:
        size: Every id is smaller.
        pad_id: Id of padding, which no text is encoded to; None where the tokenizer has none.
        unknown_id: Id of what the tokenizer does not know; None where it knows everything.
        end_id: Id of the end of a document in packed sequences; None where nobody says.
    """

    size: int
    pad_id: int | None = None
    unknown_id: int | None = None
    end_id: int | None = None

    @property
    def padding(self) -> int:
        """The id to pad with: the tokenizer's, or the one behind all others."""
        return self.size if self.pad_id is None else self.pad_id

    @property
    def rows(self) -> int:
        """Ids that a batch may hold, the one of padding included."""
        return max(self.size, self.padding + 1)


def find_vocabulary(root: Place, manifest: Manifest) -> SetVocabulary:
    """The vocabulary of a set of token ids.

    Raises:
        ShardSetError: The set holds no tokenizer, and its manifest no size.
        DamageError: The tokenizer cannot be read.
    """
    declared = manifest.config.get("vocabulary")
    if isinstance(declared, dict) and declared.get("size"):
        ids = (declared.get(name) for name in ("pad", "unknown", "end"))
        return _checked(SetVocabulary(int(declared["size"]), *ids), root / naming.MANIFEST)
    counted = _counted_size(manifest)
    for name, read in ((HUGGING_FACE, _hugging_face), (SENTENCE_PIECE, _sentence_piece)):
        path = root / name
        try:
            vocabulary = read(read_tokenizer_file(path))
        except FileNotFoundError:
            continue
        except Exception as error:  # the packages raise bare Exceptions
            raise DamageError(
                f"Cannot read the tokenizer {path}: {error}. Run 'shardmill verify', and copy the "
                "set again."
            ) from error
        return _checked(dataclasses.replace(vocabulary, size=max(vocabulary.size, counted)), path)
    if not counted:
        raise ShardSetError(
            f"No tokenizer ({HUGGING_FACE} or {SENTENCE_PIECE}) in {root}, a set of token ids. "
            "Copy the whole set, or build it again."
        )
    return _checked(SetVocabulary(counted), root / naming.MANIFEST)


def _checked(vocabulary: SetVocabulary, where: Place) -> SetVocabulary:
    """The vocabulary, of which tables with a row for each id can be made.

    Raises:
        DamageError: It has no id, or more than any tokenizer of a set.
    """
    named = (vocabulary.pad_id, vocabulary.unknown_id, vocabulary.end_id)
    try:
        check_ids(max(vocabulary.size, *(one + 1 for one in named if one is not None), 0))
    except ValueError as error:
        raise DamageError(f"The vocabulary in {where} cannot be used: {error}.") from error
    return vocabulary


@functools.lru_cache(maxsize=1)
def _decoder(root: Place) -> Callable[[Sequence[int]], str]:
    """What the tokenizer of a set makes of ids; their numbers where the set has none."""
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_buffer(read_tokenizer_file(root / HUGGING_FACE))
        size = tokenizer.get_vocab_size(with_added_tokens=True)
        return lambda ids: tokenizer.decode([each for each in ids if each < size])
    except FileNotFoundError:
        pass
    try:
        from sentencepiece import SentencePieceProcessor

        processor = SentencePieceProcessor(model_proto=read_tokenizer_file(root / SENTENCE_PIECE))
        return lambda ids: processor.decode(
            [each for each in ids if each < processor.get_piece_size()]
        )
    except FileNotFoundError:
        return lambda ids: " ".join(map(str, ids))


def text_of_ids(root: Place, ids: Sequence[int]) -> str:
    """The text of token ids, by the tokenizer in a set; that of padding is left out."""
    return _decoder(root)([int(each) for each in ids])


def _counted_size(manifest: Manifest) -> int:
    """What the statistics of the training split say; 0 where they say nothing."""
    split = manifest.splits.get(TRAINING_SPLIT)
    vocabulary = split.statistics.get("vocabulary") if split is not None else None
    size = vocabulary.get("size") if isinstance(vocabulary, dict) else None
    return size if isinstance(size, int) else 0


def _hugging_face(content: bytes) -> SetVocabulary:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(content)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    pad = (tokenizer.padding or {}).get("pad_id")
    unknown = getattr(tokenizer.model, "unk_token", None) or ""
    return SetVocabulary(
        size=max(ids.values(), default=-1) + 1,
        pad_id=_first(ids, _PAD_TOKENS) if pad is None else int(pad),
        unknown_id=_first(ids, (unknown, *_UNKNOWN_TOKENS)),
    )


def _first(ids: dict[str, int], names: tuple[str, ...]) -> int | None:
    return next((ids[name] for name in names if name in ids), None)


def _sentence_piece(content: bytes) -> SetVocabulary:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=content)
    pad, unknown = processor.pad_id(), processor.unk_id()  # -1 where there is none
    return SetVocabulary(
        size=processor.get_piece_size(),
        pad_id=None if pad < 0 else pad,
        unknown_id=None if unknown < 0 else unknown,
    )
