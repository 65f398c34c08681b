"""`label=...`: which label of a set is the target, or several of them by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import reader
from beam_jobs.images.encode import encode_jpeg
from shard_format import Feature, Schema, ShardSetError, UsageError
from tests.fixtures.sets import write_shard_set

MAKES, COLOURS, TAGS = ("bmw", "vw"), ("blue", "green", "red"), ("a", "b", "c", "d")
KINDS = ("image", "text", "tokens")
LABELS = (
    Feature("label", "class_label", (), "", MAKES, late=True),
    Feature("colour", "class_label", (), "", COLOURS, late=True),
)
BOTH = ("make", "colour")


def _input(kind: str, number: int) -> Any:
    if kind == "image":
        return encode_jpeg(np.full((8, 8, 3), 10 * number, np.uint8), 100)
    return str(number) if kind == "text" else [number] * (1 + number % 3)


def write(
    directory: Path, kind: str, labels: tuple[Feature, ...] = LABELS, count: int = 24
) -> Path:
    """Records of which number n is the input; its make is n % 2, its colour n % 3."""
    own = {
        "image": Feature("image", "image", (-1, -1, 3), "jpeg"),
        "text": Feature("text", "text"),
        "tokens": Feature("tokens", "int64", (-1,)),
    }[kind]
    records = []
    for number in range(count):
        said = {"label": number % 2, "colour": number % 3, "tags": [0, number % 4]}
        values = {"id": str(number), own.name: _input(kind, number)} | said
        row = {"label": number % 2, "labels": None, "label.colour": number % 3}
        row |= {"width": 8, "height": 8}
        records.append((values, row | {"tokens": 1 + number % 3}))
    columns = [pa.field(name, pa.int64()) for name in ("label.colour", "width", "height", "tokens")]
    write_shard_set(
        directory,
        Schema("text" if kind == "tokens" else kind, (Feature("id", "text"), own, *labels)),
        {"train": [records]},
        columns,
        {"train": {"vocabulary": {"size": 50}}},
        config={"label_column": "make,colour"},
    )
    return directory


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("labels")
    return {kind: write(root / kind, kind) for kind in KINDS}


def load(directory: Path, **options: Any) -> reader.Stream:
    kind = directory.name
    options = {"batch_size": 8, "epochs": 1} | options
    if kind == "image":
        options = {"image_size": 8} | options
    return reader.load(directory, **options)


def numbers_of(inputs: Any) -> list[int]:
    inputs = next(iter(inputs.values())) if isinstance(inputs, dict) else inputs
    values = inputs.numpy()
    if values.ndim == 4:
        return [round(mean / 10) for mean in values.mean(axis=(1, 2, 3)).tolist()]
    return [int(value) for value in (values if values.ndim == 1 else values[:, 0])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("label", "modulus", "name"),
    [(None, 2, "label"), ("label", 2, "label"), ("make", 2, "make"), ("colour", 3, "colour")],
)
def test_one_label_is_the_target(
    sets: dict[str, Path], kind: str, label: Any, modulus: int, name: str
) -> None:
    stream = load(sets[kind], label=label)
    names = MAKES if modulus == 2 else COLOURS
    assert stream.info.labels == {name: names} and stream.info.class_names == names
    assert stream.info.targets == "label"
    for inputs, targets in stream.dataset:
        assert targets.dtype == tf.int64
        assert targets.numpy().tolist() == [n % modulus for n in numbers_of(inputs)]


@pytest.mark.parametrize("kind", KINDS)
def test_several_labels_are_targets_by_name(sets: dict[str, Path], kind: str) -> None:
    stream = load(sets[kind], label=BOTH, remainder="pad", batch_size=10, worker=(0, 2))
    assert stream.info.targets == "named"
    assert stream.info.labels == {"make": MAKES, "colour": COLOURS}
    seen = []
    for inputs, targets, weights in stream.dataset:
        numbers = numbers_of(inputs)
        seen += [n for n, weight in zip(numbers, weights.numpy(), strict=True) if weight]
        assert {name: target.numpy().tolist() for name, target in targets.items()} == {
            "make": [number % 2 for number in numbers],
            "colour": [number % 3 for number in numbers],
        }
    assert len(set(seen)) == len(seen) and len(seen) in (10, 12, 14)
    arrays = next(iter(load(sets[kind], label=list(BOTH)).numpy()))[1]
    assert isinstance(arrays["colour"], np.ndarray)


@pytest.mark.parametrize("kind", KINDS)
def test_further_labels_are_features(sets: dict[str, Path], kind: str) -> None:
    inputs, targets = next(iter(load(sets[kind], features=("colour",)).dataset))
    numbers = numbers_of(inputs)
    assert inputs["colour"].numpy().tolist() == [number % 3 for number in numbers]
    inputs, targets = next(iter(load(sets[kind], label="colour", features=("label",)).dataset))
    assert inputs["label"].numpy().tolist() == [number % 2 for number in numbers_of(inputs)]
    assert targets.numpy().tolist() == [number % 3 for number in numbers_of(inputs)]


@pytest.mark.parametrize(
    "cache", [{"cache": "memory"}, {"cache": "memory", "cache_stage": "decoded"}]
)
def test_caches_hold_every_label(sets: dict[str, Path], cache: dict[str, str]) -> None:
    options: dict[str, Any] = {"label": BOTH, "features": ("id",), "augment": "standard"}
    expected = list(load(sets["image"], cache="off", **options).dataset)
    for one, other in zip(load(sets["image"], **options, **cache).dataset, expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_mixed_records_have_shares_of_every_label(sets: dict[str, Path]) -> None:
    stream = load(sets["image"], label=BOTH, augment="standard,mixup,cutmix")
    for _, targets in stream.dataset:
        assert targets["make"].shape == (8, 2) and targets["colour"].shape == (8, 3)
        for shares in targets.values():
            np.testing.assert_allclose(shares.numpy().sum(axis=1), 1, atol=1e-6)
    alone = load(sets["image"], label="colour", augment="standard,mixup,cutmix")
    assert alone.info.targets == "shares"
    for (_, one), (_, both) in zip(alone.dataset, stream.dataset, strict=True):
        np.testing.assert_array_equal(one, both["colour"])


def test_any_number_of_labels_next_to_one(tmp_path: Path) -> None:
    tags = Feature("tags", "class_label", (-1,), "", TAGS, late=True)
    for kind in KINDS:
        directory = write(tmp_path / kind, kind, (*LABELS, tags))
        inputs, targets = next(iter(load(directory, label=("label", "tags")).dataset))
        for number, row in zip(numbers_of(inputs), targets["tags"].numpy(), strict=True):
            assert np.flatnonzero(row).tolist() == sorted({0, number % 4})
        assert load(directory, label="tags").info.targets == "labels"


def test_records_are_drawn_by_the_label_that_is_asked_for(sets: dict[str, Path]) -> None:
    stream = load(sets["text"], label=("colour", "make"), sample={"red": 1.0}, epochs=None)
    _, targets = next(iter(stream.dataset))
    assert set(targets["colour"].numpy()) == {2} and set(targets["make"].numpy()) == {0, 1}
    asked: dict[str, Any] = {"sample": "balanced", "epochs": None}
    state = load(sets["text"], label="colour", **asked).state(2)
    assert load(sets["text"], label="colour", state=state, **asked).first_step == 2
    del state["content"]
    for label in (None, "make"):
        with pytest.raises(UsageError, match="sampled_label"):
            load(sets["text"], label=label, state=state, **asked)


def test_a_state_is_of_its_labels(sets: dict[str, Path]) -> None:
    state = load(sets["text"], epochs=None).state(1)
    with pytest.raises(UsageError, match="label=None, not 'colour'"):
        load(sets["text"], label="colour", epochs=None, state=state)
    del state["content"]["label"]  # as in states of earlier versions
    assert load(sets["text"], epochs=None, state=state).first_step == 1


def test_mixtures_have_several_labels(sets: dict[str, Path], tmp_path: Path) -> None:
    other = write(tmp_path / "text", "text", count=30)
    both = reader.mix({str(sets["text"]): 1, str(other): 1}, batch_size=8, label=BOTH)
    inputs, targets = next(iter(both.dataset))
    assert targets["colour"].numpy().tolist() == [number % 3 for number in numbers_of(inputs)]
    fewer = (LABELS[0], Feature("colour", "class_label", (), "", COLOURS[:2], late=True))
    unlike = write(tmp_path / "unlike" / "text", "text", fewer)
    with pytest.raises(UsageError, match="different classes"):
        reader.mix({str(sets["text"]): 1, str(unlike): 1}, batch_size=8, label="colour")


def test_random_access_has_every_label(sets: dict[str, Path]) -> None:
    data = reader.random_access(sets["text"])
    assert data[7] == {"id": "7", "text": "7", "label": 1, "colour": 1}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"label": "colr"}, "Did you mean 'colour'"),
        ({"label": ("label", "make")}, "names one label .* twice"),
        ({"label": ()}, "tuple of distinct names"),
        ({"label": ("colour", "colour")}, "tuple of distinct names"),
        ({"label": 1}, "tuple of distinct names"),
        ({"label": "colour", "features": ("colour",)}, "which every batch"),
        ({"features": ("label",)}, "which every batch"),
    ],
)
def test_wrong_labels_are_refused(
    sets: dict[str, Path], options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        load(sets["text"], **options)


def test_sets_without_the_label_are_refused(packed_set: Any, text_set: Any, tmp_path: Path) -> None:
    packed = packed_set(4, train=[[[1, 2, 3, 4]]] * 4)
    with pytest.raises(UsageError, match="whose records have no labels"):
        reader.load(packed, batch_size=2, label="label")
    directory = write(tmp_path / "text", "text")
    manifest = (directory / "manifest.json").read_text()
    assert "label.colour" not in manifest  # it is a column of the index alone
    foreign = tmp_path / "foreign"
    records = [({"id": str(n), "text": "a", "label": 0, "colour": 1}, {}) for n in range(4)]
    schema = Schema("text", (Feature("id", "text"), Feature("text", "text"), *LABELS))
    write_shard_set(foreign, schema, {"train": [records]})
    assert reader.load(foreign, batch_size=2).info.class_names == MAKES
    with pytest.raises(ShardSetError, match=r"no column 'label\.colour'"):
        reader.load(foreign, batch_size=2, label="colour")
