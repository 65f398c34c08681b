"""`read`, `train` and the hint at the end of `preprocess`, of documents."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import reader
from cli.commands.preprocess import next_command
from cli.commands.train import train
from shard_format import Feature, Schema


@pytest.mark.proof
def test_read_tells_tokens_and_padding(shardmill: Any, token_set: Any) -> None:
    directory = token_set(train=[([1] * (n % 20 + 1), n % 2) for n in range(200)])
    arguments = ("read", directory, "--seconds", 0.2, "--batch-size", 16)
    done = shardmill(*arguments, "--buckets", 8)
    assert done.returncode == 0, done.stderr
    assert " tokens/s, " in done.stdout
    (share,) = re.findall(r"([\d.]+)% of the positions", done.stdout)
    without = reader.load(directory, batch_size=16).info.tokens
    assert float(share) / 100 < without.padding_share / 2
    done = shardmill("read", directory, "--batch-size", 201)
    assert done.returncode == 2 and "epochs" not in done.stderr
    assert "--batch-size 201 exceeds the 200 records of 'train'" in done.stderr
    done = shardmill(*arguments, "--image-size", 64)
    assert done.returncode == 2 and "image_size=64 does not apply to token ids" in done.stderr


@pytest.mark.proof
def test_read_tells_tokens_as_json(shardmill: Any, token_set: Any) -> None:
    directory = token_set(train=[([1] * (n % 20 + 1), n % 2) for n in range(200)])
    done = shardmill("read", directory, "--seconds", 0.2, "--batch-size", 16, "--json")
    speeds = json.loads(done.stdout.splitlines()[-1])
    assert speeds["tokens_per_second"] > speeds["records_per_second"]
    expected = reader.load(directory, batch_size=16).info.tokens
    assert speeds["padding_share"] == expected.padding_share


@pytest.mark.proof
def test_read_of_raw_text(shardmill: Any, text_set: Any, tmp_path: Any) -> None:
    directory = text_set(train=[(f"the film {n} was good", n % 2) for n in range(70)])
    (tmp_path / "words").write_text("film, movie\n")
    done = shardmill("read", directory, "--seconds", 0.2, "--synonyms", tmp_path / "words")
    assert done.returncode == 0, done.stderr
    assert "records/s" in done.stdout and "tokens/s" not in done.stdout


def test_the_default_batch_of_read_fits_a_small_split(shardmill: Any, text_set: Any) -> None:
    directory = text_set(train=[(f"the film {n} was good", n % 2) for n in range(39)])
    done = shardmill("read", directory, "--seconds", 0.1, "--augment", "none", "--json")
    assert done.returncode == 0, done.stderr
    done = shardmill("read", directory, "--batch-size", 64)
    assert done.returncode == 2 and "--batch-size 64 exceeds the 39 records" in done.stderr


def test_training_on_raw_text_is_refused(shardmill: Any, text_set: Any) -> None:
    directory = text_set(train=[(f"the film {n} was good", n % 2) for n in range(70)])
    done = shardmill("train", directory)
    assert done.returncode == 2 and "--train-tokenizer bpe:8000" in done.stderr


@pytest.mark.proof
def test_training_a_language_model_shows_perplexity(
    shardmill: Any, packed_set: Any, tmp_path: Any
) -> None:
    rows = [[[n, n + 1, n + 2]] * 2 for n in range(24)]
    directory = packed_set(8, train=rows, validation=rows[:5])
    arguments = ("train", directory, "--run-dir", tmp_path / "run", "--epochs", 1)
    done = shardmill(*arguments)
    assert done.returncode == 0, done.stderr
    assert "validation perplexity" in done.stdout and "accuracy" not in done.stdout
    again = json.loads(shardmill(*arguments, "--json").stdout.splitlines()[-1])
    assert again["val_perplexity"] > 1 and again["val_accuracy"] is None


@pytest.mark.parametrize(
    ("record_type", "features", "command"),
    [
        ("image", ("image", "label"), "shardmill train set --model small_cnn"),
        ("text", ("text", "label"), "shardmill read set"),
        ("text", ("tokens", "label"), "shardmill train set --model text_transformer"),
        ("text", ("tokens",), "shardmill read set"),
        ("image", ("image",), "shardmill read set"),
        ("text", ("tokens", "segments"), "shardmill train set --model causal_transformer"),
    ],
)
def test_the_hint_after_preprocess_fits_the_set(
    record_type: str, features: tuple[str, ...], command: str
) -> None:
    classes = {"label": ("bad", "good")}
    declared = tuple(Feature(name, "int64", (), "", classes.get(name, ())) for name in features)
    schema = Schema(record_type, declared)
    assert next_command(schema, "set") == command


@pytest.mark.parametrize(
    "label",
    [
        Feature("label", "class_label", (-1,), "", ("bad", "good")),
        Feature("label", "class_label", (), "", ("the only one",)),
    ],
)
def test_labels_that_no_model_of_ours_learns_are_read(label: Feature) -> None:
    schema = Schema("text", (Feature("tokens", "int64", (-1,)), label))
    assert next_command(schema, "set") == "shardmill read set"


def test_the_hint_after_a_job_that_kept_nothing(shardmill: Any, tmp_path: Any) -> None:
    (tmp_path / "all.csv").write_text('text\n" "\n')
    job = ("preprocess", "text", tmp_path / "all.csv", "--out", tmp_path / "set")
    done = shardmill(*job, "--keep-empty")
    assert done.returncode == 3 and "rejected" in done.stderr
    assert f"next       shardmill quarantine list {tmp_path / 'set'}" in done.stdout


def test_train_shows_the_defaults_of_every_kind_of_set() -> None:
    shown = {option.name: getattr(option, "show_default", None) for option in train.params}
    assert shown["image_size"] == "64" and shown["max_tokens"] == "256"
    assert shown["model"] == "image small_cnn, tokens text_transformer, packed causal_transformer"
