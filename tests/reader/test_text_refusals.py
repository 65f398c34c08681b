"""What can be wrong with options for documents, or with a set of them; and its vocabulary."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reader
from reader.records.vocabulary import SetVocabulary, find_vocabulary
from shard_format import DamageError, ShardSetError, UsageError, load_manifest

MakeSet = Callable[..., Path]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "text",
            {"image_size": 64},
            "image_size=64 does not apply to raw text in .*: it is for images",
        ),
        (
            "text",
            {"max_tokens": 8},
            "max_tokens=8 does not apply to raw text .* for token ids.*--train-tokenizer",
        ),
        ("text", {"pad": "max"}, "pad=max does not apply to raw text .* for token ids"),
        ("tokens", {"dtype": "float32"}, "dtype=float32 does not apply to token ids .* for images"),
        (
            "tokens",
            {"normalize": "zscore"},
            "normalize=zscore does not apply to token ids .* for images",
        ),
        ("tokens", {"pad": "maximum"}, "Unknown pad 'maximum' .* Choices: longest, max, none"),
        ("tokens", {"buckets": 0}, "buckets is 0 .* Pass an integer in .1, 4096."),
        ("tokens", {"max_tokens": 0}, "max_tokens is 0 .* Pass an integer of at least 1"),
        (
            "tokens",
            {"buckets": 4, "shuffle": "off"},
            "buckets=4 groups records .*, which shuffle='off' does not have",
        ),
        (
            "tokens",
            {"synonyms": "x", "augment": "strong"},
            "synonyms=x does not apply to token ids .* for raw text",
        ),
        ("tokens", {"synonyms": "x"}, "synonyms have no effect with augment='none'"),
        ("packed", {"max_tokens": 8}, "max_tokens=8 does not apply to packed sequences .* --pack'"),
        ("packed", {"buckets": 2}, "buckets=2 does not apply to packed sequences .* for token ids"),
        ("tokens", {"segments": False}, "segments=False does not apply to token ids .* for packed"),
        (
            "packed",
            {"segments": False, "augment": "standard"},
            "augment='standard' needs the segments of .*, and segments=False does not read them",
        ),
    ],
)
def test_options_of_other_sets_are_refused(
    text_set: MakeSet,
    token_set: MakeSet,
    packed_set: MakeSet,
    kind: str,
    options: Any,
    message: str,
) -> None:
    if kind == "text":
        directory = text_set(train=[("a", 0)])
    elif kind == "tokens":
        directory = token_set(train=[([1], 0)])
    else:
        directory = packed_set(8, train=[[[1, 2]]])
    with pytest.raises(UsageError, match=message):
        reader.load(directory, batch_size=1, **options)


@pytest.mark.parametrize("option", [{"max_tokens": 8}, {"pad": "none"}, {"buckets": 2}])
def test_options_of_text_are_refused_for_images(make_set: Any, option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"does not apply to images in .* for token ids"):
        reader.load(make_set({"train": (4,)}), batch_size=1, **option)


def test_text_sets_that_are_not_what_they_should_be(write_records: Any, tmp_path: Path) -> None:
    from shard_format import Feature, Schema

    tokens = Schema("text", (Feature("tokens", "int64", (-1,)),))
    directory = write_records(tokens, {"train": [({"tokens": [1]}, {})]}, name="a")
    with pytest.raises(ShardSetError, match="No tokenizer "):
        reader.load(directory, batch_size=1)
    (directory / "tokenizer.json").write_text("{")
    with pytest.raises(DamageError, match=r"Cannot read the tokenizer .*tokenizer\.json"):
        reader.load(directory, batch_size=1)
    (directory / "tokenizer.json").unlink()
    size = {"vocabulary": {"size": 3}}
    directory = write_records(tokens, {"train": [({"tokens": [1]}, {})]}, (), size, "b")
    with pytest.raises(DamageError, match="has no column 'tokens'"):
        reader.load(directory, batch_size=1)
    named = Schema("text", (Feature("title", "text"),))
    directory = write_records(named, {"train": [({"title": "x"}, {})]}, name="c")
    with pytest.raises(ShardSetError, match=r"No feature 'text' among .*title \(text\)"):
        reader.load(directory, batch_size=1)


def test_the_vocabulary_of_a_hugging_face_tokenizer(token_set: MakeSet) -> None:
    from tokenizers import Tokenizer, models

    directory = token_set(train=[([1], 0)])
    ids = {"[UNK]": 3, "a": 0, "b": 60}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.save(str(directory / "tokenizer.json"))
    vocabulary = find_vocabulary(directory, load_manifest(directory))
    assert vocabulary == SetVocabulary(size=61, pad_id=None, unknown_id=3)
    assert (vocabulary.padding, vocabulary.rows) == (61, 62)
    tokenizer.add_special_tokens(["<pad>"])
    tokenizer.save(str(directory / "tokenizer.json"))
    vocabulary = find_vocabulary(directory, load_manifest(directory))
    assert vocabulary.pad_id == vocabulary.padding == tokenizer.token_to_id("<pad>")


def test_a_vocabulary_that_no_table_can_have(token_set: MakeSet) -> None:
    directory = token_set(train=[([1], 0)])
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 2**32 - 1}, "unk_token": "a"}
    text = json.dumps({"version": "1.0", "added_tokens": [], "model": model})
    (directory / "tokenizer.json").write_text(text)
    with pytest.raises(DamageError, match=r"ids from 0 to 1,048,575 can be used"):
        find_vocabulary(directory, load_manifest(directory))
    with (directory / "tokenizer.json").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(DamageError, match=r"1,073,741,824 bytes, more than"):
        find_vocabulary(directory, load_manifest(directory))


def test_the_vocabulary_of_a_sentence_piece_model(token_set: MakeSet) -> None:
    import io

    import sentencepiece

    directory = token_set(train=[([1], 0)])
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a rose is a rose is a rose"] * 9), model_writer=model,
        vocab_size=14, pad_id=3, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    (directory / "tokenizer.model").write_bytes(model.getvalue())
    vocabulary = find_vocabulary(directory, load_manifest(directory))
    assert (vocabulary.size, vocabulary.pad_id, vocabulary.unknown_id) == (50, 3, 0)


def test_the_vocabulary_that_a_manifest_tells(write_records: Any) -> None:
    from shard_format import Feature, Manifest, Schema
    from shard_format.naming import MANIFEST

    schema = Schema("text", (Feature("tokens", "int64", (-1,)),))
    directory = write_records(schema, {"train": [({"tokens": [1]}, {})]})
    manifest = load_manifest(directory)
    told = {"vocabulary": {"size": 9, "pad": 2, "unknown": None, "end": 3}}
    manifest = Manifest(
        manifest.name, schema, manifest.splits, manifest.ledger, told, manifest.files
    )
    (directory / MANIFEST).write_text(manifest.to_text())
    vocabulary = find_vocabulary(directory, load_manifest(directory))
    assert vocabulary == SetVocabulary(size=9, pad_id=2, unknown_id=None, end_id=3)


def test_without_an_id_of_padding_sequences_are_padded_with_the_end(packed_set: Any) -> None:
    from shard_format.naming import MANIFEST

    directory = packed_set(16, train=[[[5] * 10]] * 4)
    told = {"vocabulary": {"size": 50, "pad": None, "unknown": None, "end": 0}}
    manifest = dataclasses.replace(load_manifest(directory), config=told)
    (directory / MANIFEST).write_text(manifest.to_text())
    stream = reader.load(directory, batch_size=4, epochs=1)
    ((inputs, _, _),) = stream.dataset
    padding = inputs["tokens"].numpy()[inputs["segments"].numpy() == 0]
    assert stream.info.tokens is not None and {*padding.tolist()} == {stream.info.tokens.pad_id}
