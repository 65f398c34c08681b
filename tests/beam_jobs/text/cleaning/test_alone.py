"""A step treats every document by itself, and those that promise it change nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from beam_jobs.text.cleaning import STEPS
from tests.fixtures.proofs import examples

# Bounds that some documents of a few words meet and others do not.
TIGHT = [
    "length:min_chars=5:max_chars=40:min_words=2:max_words=9",
    "gopher-quality:min_words=2:max_words=12:min_stop_words=1",
    "c4:min_words_per_line=1:min_sentences=1",
    "c4:terminal_punctuation=false:min_words_per_line=2:max_word_chars=9:min_sentences=0",
    "stop-words:min_share=0.1",
    "language:only=en+de:min_score=0.3",
    "html:all=true:title=true",
    "html:all=true:boilerplate=true",
    "ftfy:entities=true",
    "whitespace:blanks=true:empty_lines=0",
    "web",
    "web-en",
]
IDEMPOTENT = ["nfc", "controls", "whitespace", "whitespace:blanks=true:empty_lines=0", "length"]


@pytest.mark.parametrize("recipe", [*STEPS, *TIGHT])
@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_batch_is_cleaned_as_each_document_alone(
    recipe: str, data: st.DataObject, nasty: SearchStrategy[str], clean: Callable[..., Any]
) -> None:
    documents = data.draw(st.lists(nasty, min_size=1, max_size=6))
    together = clean(recipe, *documents)
    for number, document in enumerate(documents):
        alone = clean(recipe, document)
        assert [part[number] for part in together] == [part[0] for part in alone]
        assert (alone.texts[0] is None) == (alone.reasons[0] is not None)


@pytest.mark.parametrize("recipe", IDEMPOTENT)
@settings(max_examples=examples(100))
@given(data=st.data())
def test_cleaning_twice_changes_nothing(
    recipe: str, data: st.DataObject, nasty: SearchStrategy[str], clean: Callable[..., Any]
) -> None:
    (once,) = clean(recipe, data.draw(nasty)).texts
    if once is not None:
        assert clean(recipe, once).texts == [once]


def test_no_documents_and_no_document_left(clean: Callable[..., Any]) -> None:
    for recipe in [*STEPS, "web", "web-en"]:
        assert clean(recipe).texts == []
        assert clean(f"length:min_chars=99,{recipe}", "short", "").texts == [None, None]
