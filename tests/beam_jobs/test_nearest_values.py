"""An unknown name is answered with the nearest one that is known."""

from __future__ import annotations

import json

import pytest

from beam_jobs import ImageOptions, TextOptions, preprocess
from beam_jobs.images.resize import parse_resize
from beam_jobs.quarantine import check_reasons
from beam_jobs.text.cleaning import make_steps
from beam_jobs.text.cleaning.language import known_languages
from beam_jobs.text.cleaning.language_names import LANGUAGE_CODES
from shard_format import InputError, UsageError


@pytest.mark.parametrize(
    ("options", "values", "nearest"),
    [
        (TextOptions, {"format": "jsnl"}, "jsonl"),
        (TextOptions, {"encoding": "uft-8"}, "utf-8"),
        (TextOptions, {"encoding": "windows1252x"}, "windows-1252"),
        (TextOptions, {"packing": "bestfit"}, "best-fit"),
        (TextOptions, {"train_tokenizer": "bep:32000"}, "bpe"),
        (TextOptions, {"keep_columns": "year:int"}, "int64"),
        (ImageOptions, {"source": "folders"}, "class-folders"),
        (ImageOptions, {"dedup": "Near"}, "near"),
        (ImageOptions, {"split": "folder"}, "folders"),
        (ImageOptions, {"split": "colum:fold"}, "column:"),
    ],
)
def test_an_option_with_a_slip(options, values, nearest):
    with pytest.raises(UsageError, match=f"Did you mean '{nearest}'\\? [WC]"):
        options(("src",), "out", **values)


@pytest.mark.parametrize(("mode", "nearest"), [("short:256", "shorter"), ("Crop:2x2", "crop")])
def test_a_resize_mode_with_a_slip(mode, nearest):
    with pytest.raises(UsageError, match=f"Did you mean '{nearest}'"):
        parse_resize(mode)


@pytest.mark.parametrize("values", [{"split": "train:0.9"}, {"encoding": "zzz"}])
def test_nothing_is_proposed_if_nothing_is_near(values):
    with pytest.raises(UsageError) as caught:
        TextOptions(("src",), "out", **values)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "code"),
    [("german", "de"), ("Germn", "de"), ("EN", "en"), ("pt-BR", "pt"), ("jp", "ja"), ("eng", "en")],
)
def test_a_language_by_another_name(given, code):
    with pytest.raises(UsageError, match=f"not know '{given}'. Did you mean '{code}'. Write"):
        make_steps("default", f"fr,{given}")


def test_several_languages_by_name_and_one_that_is_unknown():
    with pytest.raises(UsageError) as caught:
        make_steps("default", "german,french,klingon")
    assert "Did you mean 'fr,de'? Write" in str(caught.value)


def test_every_language_with_a_name_is_one_of_the_model():
    assert set(LANGUAGE_CODES.values()) <= known_languages()
    assert all(name == name.casefold() and len(code) < 4 for name, code in LANGUAGE_CODES.items())


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = {"text": "some words of a text", "category": "a", "user_id": "u"}
    path.write_text(json.dumps(row) + "\n")
    return path


@pytest.mark.parametrize(
    ("values", "nearest"),
    [
        ({"label_column": "categroy"}, "category"),
        ({"group_by": "user"}, "user_id"),
        ({"keep_columns": "User_ID"}, "user_id"),
        ({"text_column": "txt"}, "text"),
    ],
)
def test_a_column_with_a_slip(rows, tmp_path, values, nearest):
    job = TextOptions((str(rows),), str(tmp_path / "set"), **{"no_labels": True} | values)
    if "label_column" in values:
        job = TextOptions((str(rows),), str(tmp_path / "set"), **values)
    with pytest.raises(InputError, match=f"has no column .* Did you mean '{nearest}'\\? "):
        preprocess(job)


def test_a_column_of_a_label_table_with_a_slip(make_images, tmp_path):
    corpus = make_images(3)
    table = tmp_path / "labels.csv"
    table.write_text("path,lable\nclass0/000.jpg,a\n")
    job = ImageOptions((str(corpus),), str(tmp_path / "set"), labels=str(table))
    with pytest.raises(InputError, match=r"no column 'label' .* Did you mean 'lable'\? Name one"):
        preprocess(job)


def test_a_reason_with_a_slip(rows, tmp_path):
    with rows.open("a") as file:
        file.write("no JSON\n")
    out = tmp_path / "set"
    preprocess(TextOptions((str(rows),), str(out), label_column="category", no_report=True))
    with pytest.raises(InputError, match=r"for bad-jsn\. Did you mean 'bad-json'\? Choose from"):
        check_reasons(out, ["bad-jsn"])
