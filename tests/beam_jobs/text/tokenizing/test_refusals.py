"""What is wrong with a tokenizer or an option is told before anything is staged."""

from __future__ import annotations

import json

import pytest

from beam_jobs.options import TextOptions
from shard_format import InputError, UsageError

MERGE_WITHOUT_TOKEN = {"model": {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "an empty file"),
        (b"{", "broken JSON"),
        (b"[1, 2]", "JSON without a model"),
        (b'{"vocab": {}}', "it begins with 'vocab'"),
        (b'{"model": 3}', "JSON without a model"),
        (json.dumps(MERGE_WITHOUT_TOKEN).encode(), "Token `a` out of vocabulary"),
        (b'{"model": {"type": "Unheard"}}', "JSON of something else"),
        (b"PK\x03\x04zip", r"begins with 'PK\\x03\\x04zip'"),
        (b"hello world", "begins with 'hello wo'"),
    ],
)
def test_a_file_that_is_no_tokenizer(build_text, tmp_path, content, told):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=told) as caught:
        build_text(tokenizer=str(tmp_path / "file"))
    assert str(tmp_path / "file") in str(caught.value)
    assert not (tmp_path / "set").exists()


def test_a_file_that_is_not_there(build_text, tmp_path):
    with pytest.raises(InputError, match="No such file"):
        build_text(tokenizer=str(tmp_path / "missing"))
    with pytest.raises(InputError, match="directory"):
        build_text(tokenizer=str(tmp_path))


@pytest.fixture
def without_end(tmp_path):
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    words.add_special_tokens(["<stop>"])
    words.save(str(tmp_path / "words.json"))
    return str(tmp_path / "words.json")


def test_no_token_ends_a_document(build_text, without_end):
    build_text(tokenizer=without_end)  # nothing asks for one
    with pytest.raises(InputError, match=r"'<stop>': name one with --end-token"):
        build_text("packed", tokenizer=without_end, pack=64)
    with pytest.raises(InputError, match=r"no token '<end>' .* '<stop>'"):
        build_text("packed", tokenizer=without_end, pack=64, end_token="<end>")
    vocabulary = build_text("packed", tokenizer=without_end, pack=64, end_token="<stop>").config[
        "vocabulary"
    ]
    assert vocabulary == {"size": 3, "unknown": 1, "pad": None, "end": 2}


def test_text_that_the_tokenizer_has_no_id_for(build_text, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="missing"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "words.json"))
    with pytest.raises(InputError, match="failed on a text"):
        build_text(tokenizer=str(tmp_path / "words.json"))


def test_no_record_to_train_on(build_text, tmp_path):
    folder = tmp_path / "source" / "test" / "x"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("some text")
    options = {"split": "folders", "label_column": None, "train_tokenizer": "bpe:300"}
    build_text("set", tmp_path / "source", **options)  # the only split there is
    options |= {"split": "train=0.000001,test=0.999999"}
    with pytest.raises(InputError, match="No record in the training split 'train'"):
        build_text("other", tmp_path / "source", **options)


def test_where_everything_is_refused_the_set_says_why(build_text, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.jsonl").write_text("no json\n")
    manifest = build_text("set", tmp_path / "source", no_labels=True, train_tokenizer="bpe:300")
    assert manifest.ledger.quarantined == manifest.ledger.read == 1
    options = {"no_labels": True, "train_tokenizer": "bpe:300", "pack": 64}
    manifest = build_text("packed", tmp_path / "source", **options)
    assert manifest.ledger.quarantined == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"train_tokenizer": "bpe"}, "bpe:SIZE"),
        ({"train_tokenizer": "bpe:259"}, "from 260"),
        ({"train_tokenizer": "bpe:1e5"}, "bpe:1e5"),
        ({"train_tokenizer": "wordpiece:500"}, "from 516"),
        ({"train_tokenizer": "bpe:99999999999999999999"}, "up to 1,000,000"),
        ({"train_tokenizer": "sentencepiece:32000"}, "'sentencepiece:32000'"),
        ({"train_tokenizer": "bpe:300", "tokenizer": "x"}, "Leave one of them out"),
        ({"train_tokenizer": "bpe:300", "tokenizer_sample": "much"}, "--tokenizer-sample"),
        ({"pack": 64}, "neither --tokenizer nor --train-tokenizer"),
        ({"pack": 7, "tokenizer": "x"}, "--pack"),
        ({"pack": 64, "tokenizer": "x", "packing": "worst-fit"}, "--packing"),
        ({"pack": 64, "tokenizer": "x", "stratify": True}, "--pack drops the labels.*--stratify"),
        ({"pack": 64, "tokenizer": "x", "multi_label": True}, "--pack drops .*--multi-label"),
        ({"pack": 64, "tokenizer": "x", "balance": "oversample"}, "--balance oversample"),
        ({"pack": 64, "tokenizer": "x", "keep_columns": "a"}, "--keep-columns"),
        ({"end_token": "</s>", "tokenizer": "x"}, "--end-token has no effect without --pack"),
        ({"end_token": "</s>", "train_tokenizer": "bpe:300", "pack": 64}, "--end-token names"),
    ],
)
def test_options_that_make_no_sense(options, told):
    with pytest.raises(UsageError, match=told):
        TextOptions(("source",), "out", **options)
