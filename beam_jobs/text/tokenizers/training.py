"""Training of tokenizers on the corpus; one function per kind.

Each returns the same bytes for the same texts in the same order, on any number of cores, and its
tokenizer can encode every text: all 256 bytes are in the vocabulary. The first ids are <pad>,
<unk>, <s>, </s>.

Hugging Face's own unigram and WordPiece trainers are not deterministic (tokenizers 0.23: they
iterate over hash tables). So SentencePiece trains unigram, and WordPiece gets its alphabet
beforehand, which makes the order of the hash table irrelevant.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator

import sentencepiece
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from shard_format import InputError

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
TRAINING_VERSION = 1

# Bytes as printable letters: the "characters" of BPE and WordPiece here.
_ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
_INSIDE = "##"  # prefix of a WordPiece inside a word
# WordPiece searches the longest piece at every place of a word: time is the square of its length.
_LONGEST_WORD = 100  # letters, as in BERT
# SentencePiece leaves out sentences with these characters, so texts are split at them.
_NOT_LEARNED = re.compile("[\n\r\t\0\u2585]+")
# Its sums of floats depend on the number of threads, so that is fixed.
_THREADS = 4

Trainer = Callable[[Iterable[str], int], bytes]


def train_bpe(texts: Iterable[str], size: int) -> bytes:
    """Byte-level BPE (Radford et al. 2019: GPT-2, section 2.2), as a tokenizer.json."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=_ALPHABET,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _json(tokenizer)


def train_wordpiece(texts: Iterable[str], size: int) -> bytes:
    """WordPiece (Schuster and Nakajima 2012; pieces as in BERT) on bytes, as a tokenizer.json."""
    # "#" is a word of its own, so no text can look like the prefix of a piece.
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Split("#", "isolated"),
            pre_tokenizers.FixedLength(_LONGEST_WORD),
        ]
    )
    learner = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    learner.pre_tokenizer = split
    alphabet = [*_ALPHABET, *(_INSIDE + letter for letter in _ALPHABET)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=[*SPECIAL_TOKENS, *alphabet],
        initial_alphabet=_ALPHABET,
        continuing_subword_prefix=_INSIDE,
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    # The alphabet is special in training only.
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(
            learner.get_vocab(),
            unk_token="<unk>",
            continuing_subword_prefix=_INSIDE,
            max_input_chars_per_word=_LONGEST_WORD,
        )
    )
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.Sequence([decoders.Replace(_INSIDE, ""), decoders.ByteLevel()])
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL_TOKENS])
    return _json(tokenizer)


def train_unigram(texts: Iterable[str], size: int) -> bytes:
    """A unigram language model (Kudo 2018) with byte fallback, as a SentencePiece model.

    Raises:
        InputError: The text has more letters than fit into the vocabulary.
    """
    model = io.BytesIO()
    errors: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_sentences(texts, errors),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,  # a small text has fewer pieces
            byte_fallback=True,
            # Decoding returns the same text: no normalization, no space added or removed.
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            max_sentence_length=1 << 30,  # bytes; longer sentences would be left out
            num_threads=_THREADS,
            minloglevel=2,  # errors only
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
        )
    except RuntimeError as error:
        if errors:
            raise errors[0] from None
        message = str(error).splitlines()[-1].rpartition("] ")[2] or str(error)
        raise InputError(
            f"--train-tokenizer unigram:{size} is too small for all letters of the text: {message} "
            "Choose a larger size, or train bpe."
        ) from error
    return model.getvalue()


def _sentences(texts: Iterable[str], errors: list[BaseException]) -> Iterator[str]:
    """The parts of texts that are learnt; what is raised meanwhile is also put into `errors`.

    SentencePiece makes a RuntimeError of it, also of a KeyboardInterrupt.
    """
    try:
        for text in texts:
            yield from filter(None, _NOT_LEARNED.split(text))
    except GeneratorExit:
        raise
    except BaseException as error:
        errors.append(error)
        raise


def _json(tokenizer: tokenizers.Tokenizer) -> bytes:
    return (tokenizer.to_str(pretty=False) + "\n").encode()


os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # see `hugging_face`

TRAINERS: dict[str, Trainer] = {
    "bpe": train_bpe,
    "unigram": train_unigram,
    "wordpiece": train_wordpiece,
}
