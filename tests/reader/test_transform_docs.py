"""docs/transforms.md names every transform, with its parameters, an image or an example."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from reader.graph import order as graph_order
from reader.transforms import AUGMENTATIONS, STAGES, TRANSFORMS
from reader.transforms.rand_augment import OPERATIONS
from reader.transforms.text import TEXT_TRANSFORMS, Draws, synonym_replacement
from reader.transforms.text.synonyms import read_synonyms, synonym_table
from reader.transforms.tokens import TOKEN_AUGMENTATIONS

MAX_BYTES = 1_000_000  # of all images


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "docs" / "transforms.md").read_text(encoding="utf-8")


def row_of(text: str, name: str) -> list[str]:
    rows = [line for line in text.splitlines() if re.match(rf"\| \[?`{name}`", line)]
    assert len(rows) == 1, name
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_of_images_is_in_the_table(text: str, name: str) -> None:
    transform: Any = TRANSFORMS[name]()
    _, class_name, parameters, stage, *_ = row_of(text, name)
    assert class_name == f"`{type(transform).__name__}`"
    assert stage == transform.stage
    expected = []
    for field in dataclasses.fields(transform):
        value = getattr(transform, field.name)
        shown = f'"{value}"' if isinstance(value, str) else f"{value:g}"
        expected.append(f"`{field.name}={shown}`")
    assert parameters == ", ".join(expected)


def test_stages_and_augmentations_are_reported(text: str) -> None:
    stages = re.findall(r"^\| (\w+) \| `(?:size|image)`", text, re.MULTILINE)
    assert tuple(stages) == STAGES
    for name in AUGMENTATIONS:
        assert f"`{name}` is " in text
    assert ", ".join(OPERATIONS) == re.sub(
        r"posterize;",
        "posterize,",
        re.search(r"identity, .*translate_y", text)[0],  # type: ignore[index]
    )


def test_images_exist_and_are_small(text: str, repository: Path) -> None:
    shown = re.findall(r"\]\((transforms/\w+\.jpg)\)", text)
    paths = sorted((repository / "docs" / "transforms").glob("*.jpg"))
    assert sorted(shown) == [f"transforms/{path.name}" for path in paths]
    assert {*TRANSFORMS, "normalization"} <= {path.stem for path in paths}
    assert sum(path.stat().st_size for path in paths) < MAX_BYTES


@pytest.mark.proof
def test_images_can_be_made_again(repository: Path, samples: Path, tmp_path: Path) -> None:
    folder = repository / "docs" / "transforms"
    arguments = ["--samples", samples, "--out", tmp_path, "--side", 16]
    subprocess.run(
        [sys.executable, folder / "make_strips.py", *map(str, arguments)],
        check=True,
        cwd=repository,
        env={"PYTHONPATH": str(repository), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
    )
    made = sorted(path.name for path in tmp_path.glob("*.jpg"))
    assert made == sorted(path.name for path in folder.glob("*.jpg"))


def keys() -> Any:
    """Of the record that the examples of the document are."""
    return graph_order.augment_keys(tf.constant([3], tf.int64), 0, tf.constant(0, tf.int64))


def test_examples_of_text_are_what_comes_out(text: str, tmp_path: Path) -> None:
    before = re.findall(r"^Before: `(.*)`$", text, re.MULTILINE)[0]
    words = re.search(r"line `(.*)`", text)
    assert words is not None
    path = tmp_path / "synonyms.txt"
    path.write_text(words[1], encoding="utf-8")
    synonyms = synonym_table(read_synonyms(path))
    transforms = {
        **TEXT_TRANSFORMS,
        "synonym_replacement": lambda text, draws: synonym_replacement(text, draws, synonyms),
    }
    for name, transform in transforms.items():
        after = transform(tf.constant([before]), Draws(keys())).numpy()[0].decode()
        assert row_of(text, name)[-1] == f"`{after}`" != f"`{before}`"


def test_examples_of_token_ids_are_what_comes_out(text: str) -> None:
    before = re.findall(r"^Before: `(\[.*\])`$", text, re.MULTILINE)[0]
    numbers = [int(number) for number in before.strip("[]").split(",")]
    ids = tf.ragged.constant([numbers], tf.int64, row_splits_dtype=tf.int64)
    vocabulary: Any = SimpleNamespace(padding=0, unknown_id=1)
    transforms = {
        transform
        for of_kind in TOKEN_AUGMENTATIONS.values()
        for several in of_kind.values()
        for transform in several
    }
    assert len(transforms) >= 2
    for transform in transforms:
        after = transform(ids, keys(), 0, vocabulary).to_list()[0]
        assert row_of(text, transform.__name__)[-1] == f"`{after}`" != f"`{before}`"


def test_the_example_of_ones_own_runs(text: str, make_set: Any) -> None:
    directory = make_set({"train": (64,)})
    program = next(
        code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "class" in code
    )
    program = program.replace('"set"', repr(str(directory))).replace("224", "8")
    defined: dict[str, Any] = {"__name__": "__main__"}  # dataclasses look a module of that name up
    exec(program, defined)
    assert next(iter(defined["stream"].dataset))[0].shape == (64, 8, 8, 3)
