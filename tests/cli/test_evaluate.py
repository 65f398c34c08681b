"""`shardmill evaluate`: what it prints, the page, and what it refuses before it loads anything."""

from __future__ import annotations

import dataclasses
from typing import Any

from cli.commands.evaluate import _print, summary
from cli.evaluation_page import write_evaluation
from inference.evaluation.scores import ClassScore, Evaluation
from trainer.baseline import Baseline

RESULT = Evaluation(
    model="run/model.keras",
    runtime="keras",
    data="set",
    split="test",
    records=4,
    loss=0.5,
    accuracy=0.75,
    baseline=Baseline("shoes", "train", 0.5),
    f1=None,
    perplexity=None,
    classes=(ClassScore("<b>hat", 2, 1.0, 0.5), ClassScore("shoes", 2, 2 / 3, 1.0)),
    matrix=((1, 1), (0, 2)),
)


def test_the_summary_names_the_baseline_and_the_mistakes(capsys: Any) -> None:
    _print(RESULT, None)
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("<b>hat")]
    assert line.split() == ["<b>hat", "2", "100.0%", "50.0%", "shoes", "1"]
    assert "accuracy   75.0%\n" in out and "4 records of split test of set" in out
    assert "50.0% by always answering 'shoes', the most frequent class of train" in out


def test_a_language_model_and_labels_in_any_number_have_their_own_numbers(capsys: Any) -> None:
    of_tokens = dataclasses.replace(RESULT, classes=(), matrix=None, baseline=None, perplexity=7.25)
    _print(of_tokens, None)
    assert "perplexity 7.25" in (out := capsys.readouterr().out) and "4 sequences" in out
    _print(dataclasses.replace(RESULT, f1=0.5, matrix=None, baseline=None), None)
    out = capsys.readouterr().out
    assert "F1         50.0% of all labels" in out and "all labels right" in out


def test_the_page_has_everything_and_runs_nothing(tmp_path: Any) -> None:
    many = tuple(ClassScore(f"c{n}", 1, None, None) for n in range(60))
    matrix = tuple(tuple(int(m == (n + 1) % 60) for m in range(60)) for n in range(60))
    large = dataclasses.replace(RESULT, classes=many, matrix=matrix)
    failed = dataclasses.replace(RESULT, failed=(("<script>.jpg", "cut"),))
    for result in (RESULT, large, failed):
        page = tmp_path / "page.html"
        write_evaluation(result, summary(result), page)
        text = page.read_text(encoding="utf-8")
        assert "<script" not in text and "default-src 'none'" in text
    write_evaluation(RESULT, summary(RESULT), page)
    text = page.read_text(encoding="utf-8")
    assert "&lt;b&gt;hat" in text and "Confusion matrix" in text and "<strong>2</strong>" in text
    assert "50.0% by always answering" in text


def test_a_model_that_is_not_there_is_said_at_once(tmp_path: Any, shardmill: Any) -> None:
    done = shardmill("evaluate", tmp_path / "nosuch")
    assert done.returncode == 3 and "nosuch does not exist. Pass the --run-dir" in done.stderr
