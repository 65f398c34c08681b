"""The report of sets of token ids, packed or not, whatever their manifest says."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from beam_jobs.report import write_report
from shard_format import (
    Feature,
    Ledger,
    Schema,
)
from tests.fixtures.sets import write_shard_set

WORDS = ["[PAD]", "a", "document", "of", "tokens", "<script>"]
STATISTICS = {
    "vocabulary": {"size": 6, "used": 5, "coverage": 5 / 6, "unknown": 0.0125},
    "packing": {"sequences": 3, "padding_share": 0.25, "documents": 12, "cut_share": 0.5},
}


@pytest.fixture
def token_set(tmp_path):
    """A set of three sequences; changes to the manifest by keyword."""

    def make(pack=1000, statistics=STATISTICS, tokenizer=True, languages=("en", "en", None)):
        schema = Schema("text", (Feature("id", "text"), Feature("tokens", "int64", (-1,))))
        directory = tmp_path / "set"
        records = [
            (
                {"id": f"{n}", "tokens": [2, 9999, -1] if n else [1, 2, 3, 4, 5] * 200},
                {"language": language},
            )
            for n, language in enumerate(languages)
        ]
        write_shard_set(
            directory,
            schema,
            {"train": [records]},
            [pa.field("language", pa.string())],
            {"train": statistics},
            config={"pack": pack},
            files={"tokenizer.json": {"bytes": 1, "sha256": "0" * 64}} if tokenizer else {},
            ledger=Ledger(12, 12, 0, 0, 0, {}),
        )
        if tokenizer:
            made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, "[PAD]"))
            made.pre_tokenizer = pre_tokenizers.Whitespace()
            made.save(str(directory / "tokenizer.json"))
        return directory

    return make


@pytest.fixture
def report(page):
    return lambda directory: page(write_report(directory).read_text(encoding="utf-8")).sections


def test_numbers_of_vocabulary_and_packing(token_set, report):
    words = report(token_set())["tokens"]
    assert "Vocabulary, over split train" in words and "Packing, over split train" in words
    assert "size6used5coverage83.33%unknown1.25%" in words
    assert "sequences3padding share25.00%documents12cut share50.00%" in words


def test_ids_are_shown_as_text(token_set, report):
    words = report(token_set())["samples"]
    assert "a document of tokens <script> a document" in words and "..." in words
    assert "2 9999 -1" in words  # what the tokenizer cannot decode


def test_without_a_tokenizer_ids_are_shown(token_set, report):
    assert "1 2 3 4 5 1 2" in report(token_set(tokenizer=False))["samples"]


def test_a_tokenizer_is_not_trusted(token_set, report):
    directory = token_set()
    for content in ("", "{}", json.dumps({"version": "1.0", "model": {"type": "<script>"}})):
        (directory / "tokenizer.json").write_text(content)
        assert "1 2 3 4 5 1 2" in report(directory)["samples"]


def test_sequences_are_no_documents(token_set, report):
    words = report(token_set())
    assert "train 3 sequences" in words["ledger"]
    assert "12 documents that were kept are packed into 3 sequences" in words["ledger"]
    assert "languages" not in words


def test_languages_are_counted(token_set, report):
    words = report(token_set(pack=None))["languages"]
    assert "en2unknown1" in words and "No cleaning step" not in words


def test_languages_are_cut(token_set, report):
    languages = [f"l{number:02d}" for number in range(30)]
    words = report(token_set(pack=None, languages=languages))["languages"]
    assert "and 14 more, of 14 records" in words and "l15" in words and "l16" not in words


@pytest.mark.parametrize(
    "statistics",
    [
        {"vocabulary": 3, "packing": None},
        {"vocabulary": {"size": "<script>", "coverage": 7, "unknown": True, "used": [1]}},
        {"chars": {"min": 0, "max": 9, "mean": 1, "histogram": {"edges": [0, 1], "counts": [0]}}},
        {"chars": {"min": 0, "max": 9, "mean": 1, "histogram": {"edges": [4, 1], "counts": [2]}}},
        {"chars": 7, "words": {}, "tokens": {"min": 1}},
    ],
)
def test_odd_statistics(token_set, report, statistics):
    words = report(token_set(statistics=statistics))
    assert "sizes" in words and "tokens" in words


def test_lengths_from_none_on(token_set, report):
    histogram = {"edges": [0, 1, 2, 4], "counts": [3, 0, 2]}
    chars = {"min": 0, "max": 3, "mean": 1.2, "histogram": histogram}
    same = {"min": 7, "max": 7, "mean": 7, "histogram": {"edges": [5, 8], "counts": [5]}}
    words = report(token_set(statistics={"chars": chars, "tokens": same}))["sizes"]
    assert "Characters of a document: 0 to 3, mean 1" in words
    assert "7" in words and "the same for every record" in words


def test_text_that_was_not_tokenized_has_no_such_section(token_set, report):
    assert "tokens" not in report(token_set(pack=None, statistics={}))


def test_ids_of_sentence_piece(token_set, report, tmp_path, sets):
    import sentencepiece

    directory = token_set(tokenizer=False)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a document of tokens"] * 50),
        model_prefix=str(directory / "tokenizer"),
        vocab_size=16,
        minloglevel=2,
    )
    sets.rewrite(directory, files={"tokenizer.model": {"bytes": 1, "sha256": "0" * 64}})
    processor = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    assert processor.decode([1, 2, 3, 4, 5] * 4) in report(directory)["samples"]


def test_cleaning_steps_stand_in_order(token_set, report, sets):
    directory = token_set()
    steps = [{"step": "nfc"}, {"step": "length", "min_chars": 1, "only": "<script>\x00"}]
    sets.rewrite(directory, config={"pack": None, "clean": steps, "seed": 0})
    words = report(directory)["set"]
    assert "2 cleaning steps" in words
    assert r'1. nfc2. lengthmin_chars=1, only="<script>\u0000"' in words
    sets.rewrite(directory, config={"clean": "nfc,length"})
    words = report(directory)["set"]
    assert "cleaning steps" not in words and 'clean"nfc,length"' in words
