"""Every operation on text runs eagerly and inside tf.data, on words of any script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

import reader
from reader.transforms.text import (
    TEXT_AUGMENTATIONS,
    TEXT_TRANSFORMS,
    Draws,
    make_step,
    synonym_replacement,
)
from reader.transforms.text.synonyms import read_synonyms, synonym_table
from shard_format import UsageError
from tests.fixtures.proofs import examples

SENTENCE = "the quick brown fox jumps over the lazy dog and runs away from all the others here"
TEXTS = [
    SENTENCE,
    "",
    "a",
    "  ",
    "naïve Grüße",
    "世界 你好 日本語のテキスト",
    "👩‍👩‍👧 é x",
    SENTENCE * 5,
]


def keys_of(count: int, seed: int = 0) -> Any:
    return tf.constant(np.random.default_rng(seed).integers(0, 2**63, count), tf.uint64)


def both_ways(apply: Callable[[Any, Draws], Any], texts: list[str], seed: int = 0) -> list[str]:
    """The result, seen to be the same eagerly, in a tf.data map, and one text at a time."""
    keys = keys_of(len(texts), seed)
    eager = apply(tf.constant(texts), Draws(keys)).numpy().tolist()
    dataset = tf.data.Dataset.from_tensor_slices((tf.constant(texts), keys))
    for size in (1, len(texts)):
        mapped = dataset.batch(size).map(lambda text, keys: apply(text, Draws(keys)))
        assert [text for batch in mapped for text in batch.numpy()] == eager
    return [text.decode() for text in eager]


def test_word_dropout() -> None:
    changed = both_ways(TEXT_TRANSFORMS["word_dropout"], TEXTS)
    assert changed[1] == changed[3] == "" and changed[2] == "a"
    for before, after in zip(TEXTS, changed, strict=True):
        assert is_subsequence(after.split(), before.split())
        assert bool(after) == bool(before.split())
    kept = [
        len(text.split()) for text in both_ways(TEXT_TRANSFORMS["word_dropout"], [SENTENCE] * 200)
    ]
    assert 0.85 < np.mean(kept) / len(SENTENCE.split()) < 0.95


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(word in rest for word in part)


def test_word_swap() -> None:
    changed = both_ways(TEXT_TRANSFORMS["word_swap"], TEXTS)
    for before, after in zip(TEXTS, changed, strict=True):
        old, new = before.split(), after.split()
        assert Counter(old) == Counter(new)
        moved = sum(a != b for a, b in zip(old, new, strict=True))
        assert moved <= 2 * max(1, len(old) // 10)
    assert both_ways(TEXT_TRANSFORMS["word_swap"], ["one two"]) == ["two one"]


def test_char_swap() -> None:
    changed = both_ways(TEXT_TRANSFORMS["char_swap"], TEXTS)
    for before, after in changed_words(changed):
        assert len(before) >= 4 and sorted(before) == sorted(after)
        assert (before[0], before[-1]) == (after[0], after[-1])
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 2
    assert both_ways(TEXT_TRANSFORMS["char_swap"], ["日本語字"]) == ["日語本字"]


def test_char_insert() -> None:
    changed = both_ways(TEXT_TRANSFORMS["char_insert"], TEXTS)
    for before, after in changed_words(changed):
        assert len(after) == len(before) + 1 and set(after) == set(before)
        assert is_subsequence(list(before), list(after))
    assert both_ways(TEXT_TRANSFORMS["char_insert"], ["é"]) == ["éé"]


def test_char_delete() -> None:
    changed = both_ways(TEXT_TRANSFORMS["char_delete"], TEXTS)
    for before, after in changed_words(changed):
        assert len(after) == len(before) - 1 > 0
        assert is_subsequence(list(after), list(before))
    assert both_ways(TEXT_TRANSFORMS["char_delete"], ["é", "üü"]) == ["é", "ü"]


def changed_words(found: list[str]) -> list[tuple[str, str]]:
    """The words that differ; never more than a tenth of a text, or one."""
    pairs = []
    for before, after in zip(TEXTS, found, strict=True):
        old, new = before.split(), after.split()
        different = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
        assert len(different) <= max(1, len(old) // 10)
        pairs += different
    assert pairs
    return pairs


@pytest.fixture
def synonyms(tmp_path: Path) -> Path:
    path = tmp_path / "synonyms.txt"
    path.write_text("# a list\nquick, Fast, swift\n\ndog,hound\nGrüße,hallo\nfast, rapid transit\n")
    return path


def test_synonym_replacement(synonyms: Path) -> None:
    listed = synonym_table(read_synonyms(synonyms))

    def apply(text: Any, draws: Draws) -> Any:
        return synonym_replacement(text, draws, listed)

    others = {"quick": {"fast", "swift"}, "dog": {"hound"}, "Grüße": {"hallo"}}
    for before, after in zip(TEXTS, both_ways(apply, TEXTS), strict=True):
        old, new = before.split(), after.split()
        different = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
        known = sum(word in others for word in old)
        assert len(different) == min(known, max(1, len(old) // 10))
        assert all(new in others[old] for old, new in different)
    kept = both_ways(apply, ["(Dog), DOG! dog-house", '"QUICK"', "nothing known here"])
    assert kept[0] in ("(hound), DOG! dog-house", "(Dog), hound! dog-house")
    assert kept[1] in ('"fast"', '"swift"') and kept[2] == "nothing known here"
    replaced = {text for text in both_ways(apply, ["fast"] * 50)}
    assert replaced == {"quick", "swift", "rapid transit"}


def test_synonyms_that_end_in_a_mark_and_a_list_that_begins_with_one(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("\ufefffilm, movie\nहिंदी, भाषा\n", encoding="utf-8")
    listed = synonym_table(read_synonyms(tmp_path / "list"))

    def apply(text: Any, draws: Draws) -> Any:
        return synonym_replacement(text, draws, listed)

    texts = ["film", "हिंदी", '"हिंदी,"', "भाषा।", "हिंद"]
    assert both_ways(apply, texts) == ["movie", "भाषा", '"भाषा,"', "हिंदी।", "हिंद"]


LETTERS = st.characters(exclude_categories=("Cc", "Cs"))


@hypothesis.given(st.lists(st.text(LETTERS, max_size=30), min_size=1, max_size=5))
@hypothesis.settings(max_examples=examples(20))
def test_any_text_stays_text(texts: list[str]) -> None:
    draws = Draws(keys_of(len(texts)))
    for name, apply in TEXT_TRANSFORMS.items():
        changed = [text.decode() for text in apply(tf.constant(texts), draws).numpy()]
        for before, after in zip(texts, changed, strict=True):
            words, chars = len(before.split()), len("".join(before.split()))
            difference = len("".join(after.split())) - chars
            if name == "word_dropout":
                assert -chars <= difference <= 0 and bool(after.split()) == bool(before.split())
            else:
                assert abs(difference) <= max(1, words // 10)


@pytest.mark.parametrize("augment", ["strong", pytest.param("standard", marks=pytest.mark.proof)])
def test_an_epoch_is_a_function_of_seed_and_epoch(
    text_set: Any, synonyms: Path, augment: str
) -> None:
    directory = text_set(train=[(f"{n} {SENTENCE}", n % 2) for n in range(30)] + [("", 0)])

    def epochs(shuffle: str, seed: int, batch_size: int = 31) -> list[list[bytes]]:
        stream = reader.load(
            directory, batch_size=batch_size, augment=augment, seed=seed, epochs=2,
            shuffle=shuffle, synonyms=synonyms,
        )  # fmt: skip
        texts = [text for batch, _ in stream.dataset for text in batch.numpy()]
        return [sorted(texts[:31]), sorted(texts[31:])]

    first, second = epochs("window", 1)
    assert epochs("off", 1, batch_size=1) == [first, second]
    assert len({str(first), str(second), str(epochs("off", 2)[0])}) == 3
    changed = sum(text.decode() != f"{text.split()[0].decode()} {SENTENCE}" for text in first[1:])
    assert changed > 20 and first[0] == b""


def test_every_operation_of_a_step_has_its_turn(synonyms: Path) -> None:
    step = make_step(("word_swap", "word_dropout"), synonym_table(read_synonyms(synonyms)))
    changed = both_ways(step, [SENTENCE] * 90)
    words = [text.split() for text in changed]
    dropped = sum(len(text) < len(SENTENCE.split()) for text in words)
    replaced = sum(bool({"fast", "swift", "hound"} & set(text)) for text in words)
    swapped = sum(Counter(text) == Counter(SENTENCE.split()) for text in words)
    assert min(dropped, replaced, swapped) > 15 and dropped + replaced + swapped == 90


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"film, movie\nalone\n", "Line 2 of .* fewer than two .*: 'alone'"),
        (b"a, A\n", "Line 1 of .*: 'a, A'"),
        (b"# nothing\n", "No line of synonyms in"),
        (b"\xff\xfe", "Cannot read synonyms from .* as UTF-8 text: 'utf-8'"),
        (None, "Cannot read synonyms from .*: .*No such file"),
    ],
)
def test_lists_of_synonyms_that_are_none(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "list").write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_synonyms(tmp_path / "list")


def test_every_transform_is_tested_here() -> None:
    assert all(f"test_{name}" in globals() for name in TEXT_TRANSFORMS)
    used = {name for steps in TEXT_AUGMENTATIONS.values() for step in steps for name in step}
    assert used == set(TEXT_TRANSFORMS)
