"""Byte-level BPE in a graph gives the ids of the Hugging Face library."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_jobs.text.tokenizers.training import train_bpe, train_wordpiece
from inference.export.byte_level_bpe import ByteLevelBpe, byte_level_bpe
from reader.records.tokenizer import make_encoder
from tests.fixtures.proofs import examples

CORPUS = [
    "I haven't got my card yet, where's it?",
    "Why was I charged 12.50 \u20ac twice on 2024-05-01?\n\n  Please\thelp!",
    "na\u00efve caf\u00e9 \u4f60\u597d \U0001f600 they'll we've",
] * 5


@pytest.fixture(scope="module")
def both():
    content = train_bpe(CORPUS, 400)
    inside = byte_level_bpe(content)
    assert isinstance(inside, ByteLevelBpe)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def graph(texts):
        ids = inside(texts)
        return ids.flat_values, ids.row_splits

    def encode(texts):
        values, splits = graph(tf.constant(texts))
        return tf.RaggedTensor.from_row_splits(values, splits).to_list()

    return encode, make_encoder("tokenizer.json", content)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1))
@example(["", " ", "  a", "a  ", "a \n b", "\u00a0\u3000x", "can't  won'T", "</s> <pad>"])
@example(["\x00\x1c\x85 x", "a\u200bb", "aaaaaaaaaaaaaaaaaaaaaaaa", "12 34 5,6"])
def test_ids_are_those_of_the_library(both, texts):
    graph, library = both
    assert graph(texts) == library(texts)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.text("ab '\n\u00e9hl.we1", max_size=60), min_size=1, max_size=5))
def test_ids_of_short_alphabets_too(both, texts):
    graph, library = both
    assert graph(texts) == library(texts)


def test_other_tokenizers_are_refused_with_the_reason():
    assert byte_level_bpe(train_wordpiece(CORPUS, 700)) == "its model is WordPiece, not BPE"
    described = json.loads(train_bpe(CORPUS, 300))
    described["pre_tokenizer"]["add_prefix_space"] = True
    assert "cuts words" in str(byte_level_bpe(json.dumps(described).encode()))
