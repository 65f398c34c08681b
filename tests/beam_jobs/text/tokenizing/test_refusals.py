"""What is wrong with a tokenizer or an option is told before anything is staged."""

from __future__ import annotations

import base64
import json
import os
import struct

import pytest

from beam_jobs.options import TextOptions
from shard_format import InputError, UsageError
from shard_format.tokenizer_limits import check_tokenizer

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
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(InputError, match="is not a regular file"):
            build_text(tokenizer=str(path))


def _words(vocab, **parts):
    return {"model": {"type": "WordLevel", "vocab": vocab, "unk_token": "a"}, **parts}


def _replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def _sequence(*rules):
    return {"type": "Sequence", "normalizers": list(rules)}


TEN_TIMES = _replace({"String": "a"}, "a" * 10)


@pytest.mark.parametrize(
    ("described", "told"),
    [
        (
            _words({"a": 0, "b": 4294967295}),
            r"largest id is 4,294,967,295; ids from 0 to 1,048,575",
        ),
        (_words({"a": 0, "b": 1 << 20}), r"largest id is 1,048,576"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": []}}, "it has no tokens"),
        (_words({"a": 0}, normalizer=_sequence(*[TEN_TIMES] * 6)), "1,000,000 times as long"),
        (
            _words({"a": 0}, normalizer=_sequence(_sequence(TEN_TIMES, TEN_TIMES), TEN_TIMES)),
            "1,000 times as long, more than 256",
        ),
        (_words({"a": 0}, normalizer=_replace({"Regex": ""}, "a" * 300)), "301 times as long"),
        (_words({"a": 0}, normalizer={"type": "Prepend", "prepend": "é" * 200}), "401 times"),
        (
            _words({"a": 0}, decoder={"type": "Sequence", "decoders": [TEN_TIMES] * 3}),
            "its decoder",
        ),
        (
            {
                "model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a"}
                | {"continuing_subword_prefix": "#" * 2000, "max_input_chars_per_word": 100}
            },
            "continuing_subword_prefix has 2,000 characters",
        ),
    ],
)
def test_a_tokenizer_that_asks_for_too_much(build_text, tmp_path, described, told):
    (tmp_path / "file").write_text(json.dumps({"version": "1.0", **described}))
    with pytest.raises(InputError, match=told) as caught:
        build_text(tokenizer=str(tmp_path / "file"))
    assert "cannot be used" in str(caught.value)
    assert not (tmp_path / "set").exists()


def test_a_tokenizer_file_of_a_gigabyte_is_not_read(build_text, tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InputError, match="1,073,741,824 bytes, more than 67,108,864"):
        build_text(tokenizer=str(tmp_path / "file"))


def test_rules_that_tokenizers_have_are_not_refused(tmp_path):
    """Llama's two rules, and those of a SentencePiece model as JSON."""
    charsmap = base64.b64encode(struct.pack("<I", 0) + b"\0".join([b"x" * 33, b"y"]) + b"\0")
    rules = [
        {"type": "Prepend", "prepend": "\u2581"},
        _replace({"String": " "}, "\u2581"),
    ]
    check_tokenizer(json.dumps(_words({"a": 0}, normalizer=_sequence(*rules))).encode())
    rules = [
        {"type": "Precompiled", "precompiled_charsmap": charsmap.decode()},
        _replace({"Regex": " {2,}"}, "\u2581"),
    ]
    check_tokenizer(json.dumps(_words({"a": 0}, normalizer=_sequence(*rules))).encode())


def test_a_sentencepiece_model_that_makes_texts_longer():
    """Its rules are a table; the longest replacement is what a letter may become."""
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some words of a text"] * 20),
        model_writer=model,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    content = model.getvalue()
    check_tokenizer(content)  # NFKC, the default
    spec = struct.pack("<I", 0) + b"x" * 300 + b"\0"
    inner = b"\x12" + bytes([len(spec) & 0x7F | 0x80, len(spec) >> 7]) + spec
    outer = b"\x1a" + bytes([len(inner) & 0x7F | 0x80, len(inner) >> 7]) + inner
    with pytest.raises(ValueError, match="its normalizer may make a text 300 times as long"):
        check_tokenizer(content + outer)
    for end in range(0, len(content), 997):  # what is cut is for the library to say
        check_tokenizer(content[:end])


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
    options = {"no_labels": True, "train_tokenizer": "bpe:300", "keep_empty": True}
    manifest = build_text("set", tmp_path / "source", **options)
    assert manifest.ledger.quarantined == manifest.ledger.read == 1
    manifest = build_text("packed", tmp_path / "source", **options, pack=64)
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
