"""Sets with scores: the same bytes however they are built, and all that kept columns can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import simplejpeg

from beam_jobs.build import open_job
from beam_jobs.generations.append import append
from beam_jobs.like import options_like
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.repair import repair
from beam_jobs.report.markup import plain_number
from beam_jobs.run import preprocess
from shard_format import (
    UsageError,
    decode_example,
    load_manifest,
    open_split_index,
    read_records,
    verify,
)
from shard_format.kept_columns import KEPT_TYPES, index_values
from tests.fixtures.score_models import fast_text_file, onnx_file

FUNCTIONS = "python:tests.fixtures.score_models"
OPTIONS: dict[str, Any] = {"text": TextOptions, "image": ImageOptions}
RECORDS = 48


def write(kind: str, folder: Path, begin: int = 0, end: int = RECORDS) -> Path:
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(begin)
    sides = [20 + number % 7 for number in range(begin, end)]
    cells: list[Any] = [
        simplejpeg.encode_jpeg(random.integers(0, 256, (side, 24, 3), np.uint8)) for side in sides
    ]
    if kind == "text":
        words = ("good", "bad", "text", "and", "the")
        cells = [
            f"{number} " + " ".join(random.choice(words, 5 + number % 9)) + ".\nIt is one of many."
            for number in range(begin, end)
        ]
    labels = [f"c{number % 2}" for number in range(begin, end)]
    pq.write_table(pa.table({kind: cells, "label": labels}), folder / f"{begin}.parquet")
    return folder


def score_of(kind: str, folder: Path) -> str:
    if kind == "image":
        model = onnx_file(folder / "m.onnx", outputs=3)
        some = f"measures,best=onnx:{model},all:float32[3]=onnx:{model}:batch=3"
        return f"{some},odd={FUNCTIONS}:nothing_for_some"
    model = fast_text_file(folder / "m.bin")
    some = f"words,top-2-gram,gopher-stop-words,p=fasttext:{model}#yes,kind=fasttext:{model}"
    return f"{some},first:text={FUNCTIONS}:initials,odd={FUNCTIONS}:nothing_for_some"


def build(kind: str, source: Path, out: Path, **values: Any) -> Path:
    own = {"workers": 1, "no_report": True, "num_shards": 2, "dedup": "off"}
    own |= {"resize": "none"} if kind == "image" else {"clean": "gopher-quality:min_words=1"}
    preprocess(OPTIONS[kind]((str(source),), str(out), **own | values))
    return out


@pytest.fixture(scope="module", params=["text", "image"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `source`, models, and `set`."""
    folder = tmp_path_factory.mktemp(kind)
    build(kind, write(kind, folder / "source"), folder / "set", score=score_of(kind, folder))
    return folder


def check(directory: Path) -> int:
    """Checks every index against the records; returns the number of scores."""
    manifest, damages = verify(directory)
    assert not damages
    own = [one for one in manifest.schema.kept if one.name != "caption"]
    scores = [one for one in own if one.kind in KEPT_TYPES and not one.shape]
    for split in manifest.splits:
        index = open_split_index(directory, manifest, split)
        shards = [directory / one.file for one in manifest.splits[split].shards]
        records = [decode_example(one) for shard in shards for _, one in read_records(shard)]
        for feature in scores:
            values: list[Any] = [
                one[feature.name][0]
                if feature.kind != "float64"
                else np.frombuffer(one[feature.name][0], "<f8")[0]
                for one in records
            ]
            values = [one.decode() if isinstance(one, bytes) else one for one in values]
            expected = index_values(values, feature.kind)
            assert index[feature.name].combine_chunks().equals(expected), feature.name
    return len(scores)


def test_an_index_has_the_scores_of_records(kind: str, folder: Path) -> None:
    assert check(folder / "set") == (9 if kind == "image" else 9 - 1)
    index = open_split_index(folder / "set", load_manifest(folder / "set"), "train")
    assert 0 < index["odd"].null_count < len(index)
    assert index["num_words"].equals(index["words"]) if kind == "text" else index["aspect"][0]


@pytest.mark.parametrize(
    "how",
    [
        {"workers": 3, "unit_size": "2KiB"},
        {"workers": 2, "worker_type": "processes", "unit_size": "2KiB"},
    ],
)
def test_units_workers_and_processes_change_nothing(
    kind: str, folder: Path, how: dict[str, Any], tmp_path: Path
) -> None:
    again = build(kind, folder / "source", tmp_path / "set", score=score_of(kind, folder), **how)
    assert load_manifest(again).root_hash == load_manifest(folder / "set").root_hash


def test_direct_runner(kind: str, folder: Path, tmp_path: Path) -> None:
    own = {"no_report": True, "num_shards": 2, "dedup": "off", "score": score_of(kind, folder)}
    own |= {"resize": "none"} if kind == "image" else {"clean": "gopher-quality:min_words=1"}
    options = OPTIONS[kind]((str(folder / "source"),), str(tmp_path / "set"), **own)
    preprocess(options, ["--runner=DirectRunner"])
    assert load_manifest(tmp_path / "set").root_hash == load_manifest(folder / "set").root_hash


def test_another_model_is_another_set(kind: str, folder: Path, tmp_path: Path) -> None:
    """Under the same name: no unit is reused; and without scores neither records nor index."""
    source = write(kind, tmp_path / "source")
    score = score_of(kind, tmp_path)
    staging = str(tmp_path / "staging")
    one = build(kind, source, tmp_path / "one", score=score, staging=staging)
    if kind == "image":
        onnx_file(tmp_path / "m.onnx", outputs=4)
        score = score.replace("[3]", "[4]")
    else:
        content = bytearray((tmp_path / "m.bin").read_bytes())
        content[-1] ^= 64
        (tmp_path / "m.bin").write_bytes(content)
    two = build(kind, source, tmp_path / "two", score=score, staging=staging)
    assert json.loads((two / "build.json").read_text())["units_reused"] == 0
    assert load_manifest(one).root_hash != load_manifest(two).root_hash
    three = build(kind, source, tmp_path / "three", staging=staging)
    assert "score" not in load_manifest(three).config and not load_manifest(three).schema.kept


def test_append_like_and_repair(kind: str, folder: Path, tmp_path: Path) -> None:
    source = write(kind, tmp_path / "source", 0, 30)
    score = score_of(kind, tmp_path)
    out = build(kind, source, tmp_path / "set", score=score)
    given = options_like(out, OPTIONS[kind])
    assert str(tmp_path) in given["score"]
    like = build(kind, source, tmp_path / "like", **given)
    assert load_manifest(like).root_hash == load_manifest(out).root_hash
    more = write(kind, tmp_path / "more", 30)
    job = OPTIONS[kind]((str(more),), str(out), append=True, workers=1, no_report=True)
    append(job, given=set())
    number = check(out)
    assert number == check(folder / "set") and load_manifest(out).newest == 1
    wrong = OPTIONS[kind]((str(more),), str(out), append=True, score=f"n={FUNCTIONS}:lengths")
    with pytest.raises(UsageError, match="--score is n="):
        append(wrong, given={"score"})
    manifest = load_manifest(out)
    for split in manifest.splits.values():
        for shard in (one.file for one in split.shards):
            content = (out / shard).read_bytes()
            (out / shard).write_bytes(content[:40] + bytes(60) + content[100:])
            assert repair(out).left == [] and (out / shard).read_bytes() == content
            break
    assert check(out) == number


@pytest.mark.parametrize("on_bad", ["quarantine", "fail"])
def test_records_whose_score_fails(kind: str, folder: Path, on_bad: str, tmp_path: Path) -> None:
    failing = f"n={FUNCTIONS}:raises_for_some"
    if on_bad == "fail":
        with pytest.raises(Exception, match="score-failed"):
            build(kind, folder / "source", tmp_path / "set", score=failing, on_bad="fail")
        return
    ledger = load_manifest(build(kind, folder / "source", tmp_path / "set", score=failing)).ledger
    assert 0 < ledger.reasons["score-failed"] == ledger.quarantined < RECORDS
    assert check(tmp_path / "set") == 1


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("n=onnx:MISSING", "there is no file"),
        ("label_=aspect,source_bytes=aspect", "unknown score|has the name of a column"),
        ("key=python:tests.fixtures.score_models:lengths", "column that the index of the set has"),
        ("label=python:tests.fixtures.score_models:lengths", "shardmill writes itself"),
    ],
)
def test_a_job_is_refused_before_it_reads(
    kind: str, folder: Path, score: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        open_job(OPTIONS[kind]((str(folder / "source"),), str(tmp_path / "set"), score=score))
    assert not (tmp_path / "set").exists()


def test_packing_has_no_scores(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--score"):
        TextOptions(("in",), "out", score="words", pack=64, train_tokenizer="bpe:300")


def test_a_report_shows_scores(tmp_path: Path) -> None:
    source = write("text", tmp_path / "source")
    score = f"words,many:float64={FUNCTIONS}:lengths"
    out = build("text", source, tmp_path / "set", score=score, no_report=False)
    page = (out / "report.html").read_text()
    many = open_split_index(out, load_manifest(out), "train")["many"].to_pylist()
    assert "num_words" in page
    assert f"{plain_number(min(many))} to {plain_number(max(many))}, mean" in page


def test_images_that_are_kept_as_they_are_have_scores(tmp_path: Path) -> None:
    """They are decoded for it, also those whose pixels are not counted."""
    source = write("image", tmp_path / "source")
    out = build("image", source, tmp_path / "set", score="measures", quality="keep")
    assert check(out) == 6
    index = open_split_index(out, load_manifest(out), "train").to_pydict()
    assert None in index["pixel_sum"] and min(index["sharpness"]) > 0
    sides = zip(index["width"], index["height"], strict=True)
    assert index["aspect"] == [np.float32(width / height) for width, height in sides]


def test_token_ids_and_captions_have_scores(tmp_path: Path) -> None:
    source = write("text", tmp_path / "texts")
    tokens = build("text", source, tmp_path / "ids", score="words", train_tokenizer="bpe:300")
    assert check(tokens) == 1 and load_manifest(tokens).schema["tokens"]
    images = write("image", tmp_path / "images")
    job = {"caption_column": "label", "score": f"aspect,n:int64={FUNCTIONS}:lengths"}
    assert check(build("image", images, tmp_path / "captions", **job)) == 2
