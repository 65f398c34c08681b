"""What the command line and the report show of a set with several labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

HOSTILE = "<b>\x1b[31m"


@pytest.fixture(scope="module")
def cars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    root = tmp_path_factory.mktemp("cars")
    rows = (
        {"text": f"car {n}", "make": f"m{n % 2}", "colour": f"c{n % 50}", "<odd>": HOSTILE}
        for n in range(200)
    )
    (root / "cars.jsonl").write_text("\n".join(map(json.dumps, rows)))
    sources, out = (str(root / "cars.jsonl"),), str(root / "set")
    preprocess(TextOptions(sources, out, label_column="make,colour,<odd>", workers=1))
    return root / "set"


def test_inspect_shows_the_classes_of_every_label(cars: Path, shardmill: Any) -> None:
    short = shardmill("inspect", cars).stdout
    assert "\nclasses    2; in train" in short and "\ncolour     50 classes; in train" in short
    assert "\n<odd>      1 class; in train" in short
    full = shardmill("inspect", cars, "--all").stdout
    assert "Classes of colour" in full and "Classes of <odd>" in full
    assert "\x1b[31m" not in full and max(map(len, full.splitlines())) <= 80


def test_the_report_has_a_table_for_every_label(cars: Path) -> None:
    page = (cars / "report.html").read_text(encoding="utf-8")
    for name in ("colour", "&lt;odd&gt;"):
        assert page.count("<h3>") >= 2 and name in page
    assert "<odd>" not in page and "<b>" not in page and "\x1b" not in page
    assert "50 classes" in page


def test_read_takes_several_labels(cars: Path, shardmill: Any) -> None:
    wrong = shardmill("read", cars, "--label", "make,color", "--augment", "none")
    assert wrong.returncode == 2 and "Did you mean 'colour'?" in wrong.stderr
