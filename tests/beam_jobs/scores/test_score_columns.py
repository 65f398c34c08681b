"""Each kind of score: its values, its refusals before anything is read, and its failures."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.measures import measure
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.options.scores import SCORES, parse_scores
from beam_jobs.record_types.base import Prepared
from beam_jobs.scores.columns import ScoreColumns
from beam_jobs.scores.images import ImageScores
from beam_jobs.scores.rules import TextScores, rule_columns
from beam_jobs.text.cleaning import Texts, make_steps
from beam_jobs.text.cleaning.fineweb import FineWeb
from beam_jobs.text.cleaning.language import MODEL
from shard_format import UsageError
from tests.fixtures.score_models import LABELS, fast_text_file, onnx_file, probabilities

FUNCTIONS = "python:tests.fixtures.score_models"
TEXTS = ["good text", "bad bad\ntext", "", "</s>", "no known word here", "good " * 40]


def of_texts(score: str, clean: str = "none") -> TextScores:
    return TextScores(TextOptions(("in",), "out", score=score), make_steps(clean))


def of_images(score: str) -> ImageScores:
    return ImageScores(ImageOptions(("in",), "out", score=score))


def rows(scores: ScoreColumns, records: list[Any]) -> list[Any]:
    return scores.rows(records, [])


def images(count: int = 5) -> list[Any]:
    random = np.random.default_rng(count)
    return [random.integers(0, 256, (8 + i, 8 + 2 * i, 3), np.uint8) for i in range(count)]


# The option


@pytest.mark.parametrize(
    "text",
    [
        "sharpness,a=python:m:f:file=/m.py",
        "q:float32[2,3]=onnx:/m.onnx:mean=0.5+0.5+0.5:std=1",
        "good=fasttext:/m.bin#very good,n=ngram-of:/texts:field=body",
        "t:text=python:a.b:c.d:file=/a/b.py",
    ],
)
def test_a_score_is_written_as_it_is_read(text: str) -> None:
    specs = parse_scores("--score", text)
    assert ",".join(map(str, specs)) == text == SCORES.absolute(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "neither a measure"),
        ("a=", "neither a measure"),
        ("=sharpness", "neither a measure"),
        ("a=fasttext", "neither a measure"),
        ("fasttext:m.bin", "without a column"),
        ("a=sharpness:x", "neither a measure"),
        ("sharpness,sharpness", "twice"),
        ("text=words", "shardmill writes itself"),
        ("a:float31=python:m:f", "float31"),
        ("[a=python:m:f", "does not begin with"),
    ],
)
def test_a_malformed_score_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_scores("--score", text)


@given(st.text("ab=:#,+[]", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        specs = parse_scores("--score", text)
    except UsageError:
        return
    assert parse_scores("--score", ",".join(map(str, specs))) == specs


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = SCORES.absolute("a=fasttext:m.bin#x,b=onnx:m.onnx:tokenizer=t.json")
    assert (
        text
        == f"a=fasttext:{tmp_path}/m.bin#x,b=onnx:{tmp_path}/m.onnx:tokenizer={tmp_path}/t.json"
    )


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("sharpnes", "Did you mean 'sharpness'"),
        ("top-2-gram", "unknown score 'top-2-gram'"),
        ("a=measures", "a group of measures no name"),
        ("a:int64=sharpness", "neither a kind"),
        ("a=fasttext:/nothing", "no file /nothing"),
        (f"a={FUNCTIONS}:LABELS", "not a function"),
        (f"a={FUNCTIONS}:nothing", "cannot be imported"),
        ("a=python:no_such_module:f", "cannot be imported|no module"),
        (f"a={FUNCTIONS}:lengths:speed=3", "no parameter 'speed'"),
    ],
)
def test_a_score_of_images_that_cannot_be_computed(score: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        of_images(score)


@pytest.mark.parametrize("score", ["entropy", f"measures,entropy={FUNCTIONS}:lengths"])
def test_two_columns_of_one_name_are_refused(score: str) -> None:
    with pytest.raises(UsageError, match="'entropy' has the name of another column"):
        ImageScores(ImageOptions(("in",), "out", score=score, keep_columns="entropy"))


# Measures and rules


def test_measures_of_images_are_those_of_the_module() -> None:
    scores, given_images = of_images("measures,wide=aspect"), images()
    waiting: Iterator[Prepared] = (Prepared({"": one}, b"", {}) for one in given_images)
    for image, one in zip(given_images, scores.added(waiting), strict=True):
        assert isinstance(one, Prepared) and "" not in one.values
        expected = measure(image)
        for name, value in expected._asdict().items():
            assert one.values[name] == np.float32(value)
        assert one.values["wide"] == np.float32(expected.aspect)


LONG = [
    "The cat and the dog sat on the mat, and that was to be of no use. " * 3,
    "buy now\nbuy now\nbuy now\n* list\n* list",
    "1234 5678 #### ... words",
    "one",
    "",
]


def columns(score: str, texts: list[str], clean: str = "none") -> dict[str, list[Any]]:
    steps = make_steps(clean)
    scores = TextScores(TextOptions(("in",), "out", score=score), steps)
    batch = pa.record_batch(
        {"text": pa.array(texts, pa.large_string()), "is_html": [False] * len(texts)}
    )
    cleaned = scores.texts(batch, [None] * len(texts))
    for applied in steps:
        applied.step(cleaned)
    return scores.columns(cleaned)


def every_rule() -> str:
    return ",".join(rule_columns())


def same(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)


@pytest.mark.parametrize("step", ["symbols", "stop-words", "fineweb", "gopher-quality"])
def test_a_score_is_the_number_that_a_rejection_names(step: str) -> None:
    scores = columns(every_rule(), LONG)
    (applied,) = make_steps(step)
    for text, expected in zip(LONG, zip(*scores.values(), strict=True), strict=True):
        texts = Texts(pa.record_batch({"text": [text], "is_html": [False]}), [None])
        texts.replace(texts.text)
        applied.step(texts)
        for _, rejection in texts.rejects:
            own = dict(zip(scores, expected, strict=True))[rejection.reason.replace("-", "_")]
            numbers = [int(one) for one in re.findall(r"(?<![.\d])\d+(?![.\d])", rejection.detail)]
            assert own == np.float32(numbers[0] / numbers[1] if numbers[1:] else numbers[0])


@given(st.lists(st.sampled_from(LONG), min_size=1, max_size=6), st.integers(0, 5))
def test_scores_do_not_depend_on_the_batch(texts: list[str], cut: int) -> None:
    whole = columns(every_rule(), texts)
    parts = [columns(every_rule(), part) for part in (texts[:cut], texts[cut:])]
    for name, values in whole.items():
        apart = [*parts[0][name], *parts[1][name]]
        assert all(map(same, values, apart)) and len(values) == len(texts), name


def test_a_rule_of_the_job_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And has the same number, but with the parameters that it has in the job."""
    calls: list[Any] = []
    call = FineWeb.__call__

    def counting(step: FineWeb, texts: Texts) -> None:
        calls.append(step)
        call(step, texts)

    loose = "line_punctuation=-1:short_lines=2:duplicate_line_chars=2:line_breaks=9"
    score = "fineweb-short-lines,fineweb-line-breaks"
    expected = columns(score, LONG)
    monkeypatch.setattr(FineWeb, "__call__", counting)
    assert str(columns(score, LONG, f"fineweb:{loose}")) == str(expected) and len(calls) == 1
    calls.clear()
    columns(score, LONG, f"fineweb:{loose},nfc")  # which changes nothing here
    assert len(calls) == 1
    calls.clear()
    changed = columns(score, ["A\n\n\n\nB"], f"fineweb:{loose},whitespace:blanks=true")
    assert len(calls) == 2 and changed["fineweb_line_breaks"] != [2.0]
    longer = columns(score, LONG, f"fineweb:{loose}:short_line_chars=1000")
    assert longer["fineweb_short_lines"][0] == 1.0 != expected["fineweb_short_lines"][0]


def test_words_and_characters() -> None:
    sizes = columns("words,characters,n=words", LONG)
    assert sizes["num_words"] == sizes["n"] == [len(text.split()) for text in LONG]
    assert sizes["num_characters"] == list(map(len, LONG))
    assert [value for value in columns("top-2-gram", [""])["top_2_gram"] if value == value] == []


# fastText


def test_fast_text_is_softmax_of_its_vectors(tmp_path: Path) -> None:
    model = fast_text_file(tmp_path / "m.bin")
    scores = of_texts(f"p=fasttext:{model}#maybe,best=fasttext:{model}")
    assert [one.form for one in scores.features] == ["float32", "text", "float32"]
    for text, (likely, name, score) in zip(TEXTS, rows(scores, TEXTS), strict=True):
        expected = probabilities(text)
        assert likely == pytest.approx(expected["maybe"], abs=1e-4)
        assert expected[name] == pytest.approx(max(expected.values()), abs=1e-4)
        assert score == pytest.approx(expected[name], abs=1e-4)


def test_a_quantized_model_of_fast_text() -> None:
    texts = ["This is an English sentence.", "Das ist ein deutscher Satz."]
    (english, _), (german, score) = rows(of_texts(f"l=fasttext:{MODEL}"), texts)
    assert (english, german) == ("en", "de") and 0.5 < score <= 1
    (likely,) = rows(of_texts(f"p=fasttext:{MODEL}#de"), texts[1:])
    assert likely == (score,)


def test_a_damaged_model_of_fast_text_is_refused(tmp_path: Path) -> None:
    model = fast_text_file(tmp_path / "m.bin")
    whole = model.read_bytes()
    for size in {0, 3, 50, 92, 100, len(whole) // 2, len(whole) - 1}:
        cut = tmp_path / f"cut-{size}"
        cut.write_bytes(whole[:size])
        with pytest.raises(UsageError, match="cannot be used"):
            of_texts(f"p=fasttext:{cut}#yes")
    with pytest.raises(UsageError, match="cannot be used"):
        of_texts(f"p=fasttext:{fast_text_file(tmp_path / 'skipgram', model=2)}")
    with pytest.raises(
        UsageError, match=f"no label 'yess'. Did you mean 'yes'.*{'|'.join(LABELS)}"
    ):
        of_texts(f"p=fasttext:{model}#yess")
    with pytest.raises(UsageError, match="scores texts"):
        of_images(f"p=fasttext:{model}#yes")
    with pytest.raises(UsageError, match="own kinds"):
        of_texts(f"p:int64=fasttext:{model}#yes")


# ONNX


@pytest.mark.parametrize("shape", [("n", 3, 8, 8), ("n", 8, 8, 3), (1, 3, 8, 8), (4, 8, 8, 3)])
def test_an_image_model_gets_normalized_channels(shape: tuple[Any, ...], tmp_path: Path) -> None:
    model = onnx_file(tmp_path / "m.onnx", shape)
    own = "q=onnx:{}:mean=0.5+0.25+0:std=2"
    (image,) = images(1)
    (row,) = rows(of_images(own.format(model)), [image])
    expected = ((image / 255 - [0.5, 0.25, 0]) / 2).sum()
    assert row == (pytest.approx(expected, rel=1e-4),)


def test_an_image_model_of_bytes_gets_bytes(tmp_path: Path) -> None:
    model = onnx_file(tmp_path / "m.onnx", kind=TensorProto.UINT8, squeezed=True)
    (image,) = images(1)
    assert rows(of_images(f"q:int64=onnx:{model}"), [image]) == [(int(image.sum()),)]


def test_a_vector_is_its_largest_value_or_kept(tmp_path: Path) -> None:
    model = onnx_file(tmp_path / "m.onnx", outputs=3)
    scores = of_images(f"q=onnx:{model}:mean=0:std=1,v:float32[3]=onnx:{model}:mean=0:std=1")
    for row in rows(scores, images()):
        best, score, vector = row
        assert best == 2 and score == vector[2]
        assert vector == pytest.approx([score / 3, score / 1.5, score], rel=1e-6)
    with pytest.raises(UsageError, match=r"3 values for each record. Write q:float32\[3\]"):
        of_images(f"q:float32=onnx:{model}")


@given(count=st.integers(0, 9), size=st.integers(1, 5))
def test_batches_are_filled_up(count: int, size: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("m")
    model = onnx_file(folder / "m.onnx")
    some = images(9)[:count]
    assert rows(of_images(f"q=onnx:{model}:batch={size}"), some) == rows(
        of_images(f"q=onnx:{model}"), some
    )
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("shape", "kind", "end", "message"),
    [
        (("n", 4, 8, 8), TensorProto.FLOAT, "", "not .batch, 3, height, width"),
        (("n", 3), TensorProto.FLOAT, "", "not .batch, 3, height, width"),
        (("n", 3, "h", "w"), TensorProto.FLOAT, "", "any size. Choose one: :size=224"),
        (("n", 3, 8, 8), TensorProto.DOUBLE, "", "cannot be used"),
        (("n", 3, 8, 8), TensorProto.FLOAT, ":mean=a", "mean is 'a'"),
        (("n", 3, 8, 8), TensorProto.FLOAT, ":std=0", "std is '0'"),
        (("n", 3, 8, 8), TensorProto.FLOAT, ":tokenizer=/t", "no file /t"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(
    shape: tuple[Any, ...], kind: int, end: str, message: str, tmp_path: Path
) -> None:
    model = onnx_file(tmp_path / "m.onnx", shape, kind=kind)
    with pytest.raises(UsageError, match=message):
        of_images(f"q=onnx:{model}{end}")


def test_a_size_is_given_to_a_model_of_any(tmp_path: Path) -> None:
    model = onnx_file(tmp_path / "m.onnx", ("n", 3, "h", "w"))
    assert len(rows(of_images(f"q=onnx:{model}:size=8"), images())) == 5


def test_a_broken_model_is_refused(tmp_path: Path) -> None:
    whole = onnx_file(tmp_path / "m.onnx").read_bytes()
    for content in (b"", b"nothing", whole[: len(whole) // 2]):
        (tmp_path / "m.onnx").write_bytes(content)
        with pytest.raises(UsageError, match="the model cannot be used"):
            of_images(f"q=onnx:{tmp_path / 'm.onnx'}")


TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {
        "type": "WordLevel",
        "vocab": {"[UNK]": 0, "good": 1, "bad": 2, "text": 3},
        "unk_token": "[UNK]",
    },
}


@pytest.mark.parametrize("tokens", ["t", 3])
def test_a_model_of_texts_gets_ids(tokens: Any, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(TOKENIZER))
    model = onnx_file(tmp_path / "m.onnx", ("n", tokens), kind=TensorProto.INT64)
    scores = of_texts(f"q=onnx:{model}:tokenizer={tmp_path / 't.json'}:length=3:batch=2")
    ids = {"good": 1, "bad": 2, "text": 3}
    sums = [sum(ids.get(word, 0) for word in text.split()[:3]) for text in TEXTS]
    assert rows(scores, TEXTS) == [(float(one),) for one in sums]
    with pytest.raises(UsageError, match="needs :tokenizer=FILE"):
        of_texts(f"q=onnx:{model}")
    image_model = onnx_file(tmp_path / "i.onnx")
    with pytest.raises(UsageError, match=r"not ids of tokens, \[batch, tokens\]"):
        of_texts(f"q=onnx:{image_model}:tokenizer={tmp_path / 't.json'}")


# Functions


def test_functions_make_numbers_and_texts() -> None:
    scores = of_texts(
        f"n:int64={FUNCTIONS}:lengths,i:text={FUNCTIONS}:initials,f={FUNCTIONS}:lengths"
    )
    assert rows(scores, TEXTS) == [(len(one), one[:1], float(len(one))) for one in TEXTS]
    assert rows(scores, []) == []
    assert rows(of_images(f"n:int64={FUNCTIONS}:lengths"), images()) == [(8 + i,) for i in range(5)]
    missing = rows(of_texts(f"n={FUNCTIONS}:nothing_for_some"), ["a", "bb"])
    assert math.isnan(missing[0][0]) and missing[1] == (1.5,)


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("raises_for_some", "'n': RuntimeError: odd: <object object at 0x...>"),
        ("too_few", "'n': ValueError: 0 values for 1 records"),
        ("wrong_for_some", "the kept column 'n' must hold float32, got 'many'"),
    ],
)
def test_a_record_whose_score_fails_is_rejected(name: str, detail: str) -> None:
    for row, text in zip(rows(of_texts(f"n={FUNCTIONS}:{name}"), TEXTS), TEXTS, strict=True):
        if name == "too_few" or len(text) % 2:
            assert row == Rejection("score-failed", detail, stage="prepare")
        else:
            assert row in [(0.5,), (len(text),)]


def test_the_identity_of_a_score_is_its_content(tmp_path: Path) -> None:
    one, other = fast_text_file(tmp_path / "a.bin"), tmp_path / "b.bin"
    shutil.copy(one, other)
    described = [of_texts(f"p=fasttext:{path}#yes").described() for path in (one, other)]
    assert described[0] == described[1] and str(tmp_path) not in str(described)
    content = bytearray(one.read_bytes())
    content[-1] ^= 1
    one.write_bytes(content)
    assert of_texts(f"p=fasttext:{one}#yes").described() != described[0]
    (own,) = of_texts(f"p={FUNCTIONS}:versioned").described()
    assert own["version"] == "7" and "code" not in own
    (own,) = of_texts(f"p={FUNCTIONS}:lengths").described()
    assert len(own["code"]) == 64
    rule = of_texts("fineweb-short-lines", "fineweb:short_line_chars=9").described()
    assert rule != of_texts("fineweb-short-lines").described()


# n-grams


def witten_bell(reference: list[list[str]], text: list[str]) -> float:
    """Perplexity by the formula, with dictionaries."""
    vocabulary = {word for one in reference for word in one}

    def p(word: str, before: tuple[str, ...], shortest: bool = False) -> float:
        if shortest:
            return 1 / (len(vocabulary) + 1)
        follow = [
            one[i]
            for one in reference
            for i in range(len(before), len(one))
            if tuple(one[i - len(before) : i]) == before
        ]
        rest = p(word, before[1:], shortest=not before)
        if not follow:
            return rest
        kinds = len(set(follow))
        return (follow.count(word) + kinds * rest) / (len(follow) + kinds)

    logs = [math.log2(p(text[i], tuple(text[max(0, i - 2) : i]))) for i in range(len(text))]
    return float(2 ** (-sum(logs) / len(logs)))


@given(
    reference=st.lists(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=6), min_size=1, max_size=3
    ),
    texts=st.lists(
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), min_size=1, max_size=3
    ),
)
def test_a_reference_model_is_witten_bell(
    tmp_path_factory: Any, reference: list[list[str]], texts: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("r")
    for number, one in enumerate(reference):
        (folder / f"{number}.txt").write_text(" ".join(one))
    computed = rows(of_texts(f"n=ngram-of:{folder}"), [" ".join(one) for one in texts])
    for text, (value,) in zip(texts, computed, strict=True):
        assert value == pytest.approx(witten_bell(reference, text), rel=1e-5)
    shutil.rmtree(folder)


def test_references_of_json_lines(tmp_path: Path) -> None:
    lines, plain = tmp_path / "r.jsonl", tmp_path / "r.txt"
    lines.write_text('{"body": "good text here"}\n\n{"body": "bad"}\n')
    plain.write_text("good text here")
    by_lines = rows(of_texts(f"n=ngram-of:{lines}:field=body"), ["good text", "bad", ""])
    by_text = rows(of_texts(f"n=ngram-of:{plain}"), ["good text", "bad", ""])
    assert by_lines[1] < by_text[1] and math.isnan(by_lines[2][0])
    for path, message in (
        (lines, "record 1 .* has no text in 'text'"),
        (tmp_path / "e.txt", "no words"),
    ):
        (tmp_path / "e.txt").write_text(" \n")
        with pytest.raises(UsageError, match=message):
            of_texts(f"n=ngram-of:{path}")


ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.5
-0.7\t</s>
-0.5\tgood\t-0.25

\\2-grams:
-0.1\t<s> good

\\end\\
"""


def test_kenlm(tmp_path: Path) -> None:
    pytest.importorskip("kenlm")
    (tmp_path / "m.arpa").write_text(ARPA)
    scores = of_texts(f"n=ngram:{tmp_path / 'm.arpa'}")
    one, two, none = rows(scores, ["good", "good\n\n good good", " \n"])
    assert one == (pytest.approx(10 ** ((0.1 + 0.25 + 0.7) / 2), rel=1e-5),)
    assert two == (pytest.approx(10 ** ((1.05 + 0.1 + 0.25 + 0.5 + 0.25 + 0.7) / 5), rel=1e-5),)
    assert math.isnan(none[0])
    (tmp_path / "m.arpa").write_text(ARPA[:40])
    with pytest.raises(UsageError, match="the model cannot be used"):
        of_texts(f"n=ngram:{tmp_path / 'm.arpa'}")
