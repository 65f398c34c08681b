from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.text.tokenizers import load_tokenizer
from beam_jobs.text.tokenizers.training import SPECIAL_TOKENS, TRAINERS
from shard_format import InputError

unicode = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
tricky = st.lists(st.sampled_from([*SPECIAL_TOKENS, "#", "##", "##a", " ", "\n", "a", "\0", "é"]))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("trained")

    def load(kind):
        path = folder / kind
        if not path.exists():
            path.write_bytes(TRAINERS[kind](texts, 600))
        return load_tokenizer(path)

    return {kind: load(kind) for kind in TRAINERS}


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
@given(st.one_of(unicode, tricky.map("".join)))
def test_any_text_comes_back(trained, kind, text):
    (ids,) = trained[kind].encode([text])
    assert trained[kind].decode(ids.tolist()) == text
    assert not set(ids.tolist()) & {0, 1, 2, 3}, "text never becomes a special token"


@given(st.one_of(unicode, tricky.map("".join)))
def test_sentence_piece_gives_text_back_but_for_its_own_space(trained, text):
    (ids,) = trained["unigram"].encode([text])
    assert trained["unigram"].decode(ids.tolist()) == text.replace("\u2581", " ")
    assert not set(ids.tolist()) & {0, 1, 2, 3}


@pytest.mark.parametrize("kind", TRAINERS)
def test_special_tokens_are_the_first_ids(trained, kind):
    vocabulary = trained[kind].vocabulary
    assert (vocabulary.pad, vocabulary.unknown, vocabulary.end) == (0, 1, 3)
    assert [trained[kind].find(name) for name in SPECIAL_TOKENS] == [0, 1, 2, 3]
    assert 300 < vocabulary.size <= 600


@pytest.mark.parametrize("kind", TRAINERS)
def test_a_long_word_takes_no_square_of_time(trained, kind):
    (ids,) = trained[kind].encode(["x" * 200_000])
    assert trained[kind].decode(ids.tolist()) == "x" * 200_000


PROGRAM = """
import hashlib, sys
from beam_jobs.text.tokenizers.training import TRAINERS
texts = [f"{n} bottles of beer, {n * n} on the wall. naïve 東京" for n in range(2000)]
for name, train in TRAINERS.items():
    print(name, hashlib.sha256(train(texts, 700)).hexdigest())
"""


def test_bytes_do_not_depend_on_threads_or_the_process(repository):
    hashes = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in "123"
    }
    assert len(hashes) == 1, hashes


def test_a_vocabulary_without_room_for_the_letters_is_refused():
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + 3000)))
    with pytest.raises(InputError, match="too small for all letters"):
        TRAINERS["unigram"]([letters] * 3, 300)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "Input/output error")])
@pytest.mark.parametrize("kind", TRAINERS)
def test_an_error_of_the_texts_is_raised_as_it_is(kind, error):
    """A trainer in native code may make another one of it."""

    def texts():
        yield "some words to learn from"
        raise error

    with pytest.raises(type(error)):
        TRAINERS[kind](texts(), 1000)
