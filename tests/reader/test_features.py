"""`features=(...)`: captions and other features of a record, handed out with the batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import reader
from beam_jobs.images.encode import encode_jpeg
from shard_format import Feature, Schema, UsageError
from tests.fixtures.proofs import proof, proofs

FURTHER = (
    Feature("caption", "text"),
    Feature("year", "int64"),
    Feature("place", "float32", (2,)),
)
ASKED = ("year", "caption", "place")
LABEL = Feature("label", "class_label", (), "", ("even", "odd"), late=True)
PACKED = ("tokens", "segments", "positions")
KINDS = ["image", "text", "tokens", "packed"]


def further(number: int) -> dict[str, Any]:
    return {
        "caption": f"Größe {number}",
        "year": 1900 + number,
        "place": [number / 2, -number],
        "many": list(range(number % 3)),
    }


def own(kind: str, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(features, columns of the index) that a record of the kind has anyway; its input is n."""
    if kind == "image":
        pixels = np.full((8, 8, 3), number, np.uint8)
        return {"image": encode_jpeg(pixels, 100)}, {"width": 8, "height": 8}
    if kind == "text":
        return {"text": str(number)}, {}
    if kind == "tokens":
        return {"tokens": [number] * (1 + number % 4)}, {"tokens": 1 + number % 4}
    values = {"tokens": [number] * 4, "segments": [1] * 4, "positions": [0, 1, 2, 3]}
    return values, {"documents": [str(number)], "padding": 0}


@pytest.fixture
def make(write_records: Callable[..., Path]) -> Callable[..., Path]:
    def write(kind: str, count: int = 23, name: str = "set", more: Any = FURTHER) -> Path:
        features = {
            "image": [Feature("image", "image", (-1, -1, 3), "jpeg")],
            "text": [Feature("text", "text")],
            "tokens": [Feature("tokens", "int64", (-1,))],
            "packed": [Feature(name, "int64", (4,)) for name in PACKED],
        }[kind]
        columns = {
            "image": (pa.field("width", pa.int32()), pa.field("height", pa.int32())),
            "tokens": (pa.field("tokens", pa.int64()),),
            "packed": (pa.field("documents", pa.list_(pa.string())), pa.field("padding", "int64")),
        }
        labels = () if kind == "packed" else (LABEL,)
        schema = Schema(
            kind,
            (Feature("id", "text"), *features, *more, Feature("many", "int64", (-1,)), *labels),
        )
        records = []
        for number in range(count):
            values, row = own(kind, number)
            values |= further(number) | {"id": str(number), "label": number % 2}
            records.append((values, row))
        statistics = {"vocabulary": {"size": 100}}
        return write_records(
            schema, {"train": records}, columns.get(kind, ()), statistics, name=name
        )

    return write


def options_of(kind: str, **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"batch_size": 5, "features": ASKED, "augment": "standard", "seed": 3}
    return options | ({"image_size": 8} if kind == "image" else {}) | changes


def inputs_of(batch: Any) -> dict[str, Any]:
    inputs = batch[0] if isinstance(batch, tuple) else batch
    assert isinstance(inputs, dict)
    return inputs


def check(kind: str, batch: Any) -> list[int]:
    """Record numbers, after a look at whether everything is of the same record."""
    inputs = inputs_of(batch)
    numbers = [year - 1900 for year in inputs["year"].tolist()]
    assert [text.decode() for text in inputs["caption"].tolist()] == [f"Größe {n}" for n in numbers]
    assert inputs["place"].dtype == np.float32
    assert inputs["place"].tolist() == [[n / 2, -n] for n in numbers]
    if kind == "image":
        assert inputs["image"].shape == (len(numbers), 8, 8, 3)
    elif kind == "packed":
        assert set(inputs) == {*PACKED, *ASKED} and inputs["tokens"].shape == (len(numbers), 3)
        assert batch[1][:, 0].tolist() == numbers and batch[2].shape == (len(numbers), 3)
    if kind != "packed":
        assert set(inputs) == {kind, *ASKED}
        assert batch[1].tolist() == [n % 2 for n in numbers]
    return numbers


@pytest.mark.parametrize("kind", KINDS)
def test_features_come_with_their_records(make: Any, kind: str) -> None:
    directory = make(kind)
    stream = reader.load(directory, **options_of(kind, epochs=1))
    assert stream.info.features == ASKED
    seen = [number for batch in stream.numpy() for number in check(kind, batch)]
    assert sorted(seen) == list(range(23))
    plain = reader.load(directory, **options_of(kind, epochs=1, features=()))
    for with_features, without in zip(stream.numpy(), plain.numpy(), strict=True):
        inputs = {name: inputs_of(with_features)[name] for name in PACKED if kind == "packed"}
        same = tf.nest.map_structure(
            np.array_equal, (inputs or inputs_of(with_features)[kind], *with_features[1:]), without
        )
        assert all(tf.nest.flatten(same))


def test_features_come_with_token_ids_alone(make: Any) -> None:
    options = options_of("packed", epochs=1, segments=False, augment="none")
    for inputs, targets in reader.load(make("packed"), **options).numpy():
        assert set(inputs) == {"tokens", *ASKED}
        assert targets[:, 0].tolist() == [year - 1900 for year in inputs["year"].tolist()]


@pytest.mark.parametrize("kind", ["image", "text"])
def test_batches_of_keras(make: Any, kind: str) -> None:
    stream = reader.load(make(kind), **options_of(kind, epochs=1, remainder="pad"))
    inputs, labels, weights = stream.dataset.element_spec
    assert inputs["caption"] == tf.TensorSpec([5], tf.string)
    assert inputs["place"] == tf.TensorSpec([5, 2], tf.float32)
    assert labels.shape == weights.shape == [5]


@pytest.mark.interop
@pytest.mark.parametrize("kind", ["image", "text"])
def test_batches_of_torch(make: Any, kind: str) -> None:
    import torch

    stream = reader.load(make(kind), **options_of(kind, epochs=1, remainder="pad"))
    arrays = list(stream.numpy())
    for batch, expected in zip(stream.torch(), arrays, strict=True):
        tensors = inputs_of(batch)
        assert tensors["caption"] == [t.decode() for t in expected[0]["caption"].tolist()]
        assert tensors["year"].dtype == torch.int64
        assert tensors["year"].tolist() == expected[0]["year"].tolist()
        assert np.array_equal(tensors["place"].numpy(), expected[0]["place"])


def test_keras_trains_on_a_named_input_and_a_feature(make: Any) -> None:
    import keras

    stream = reader.load(make("image"), **options_of("image", features=("place",)))
    image, place = keras.Input((8, 8, 3), name="image"), keras.Input((2,), name="place")
    joined = keras.layers.Concatenate()([keras.layers.Flatten()(image), place])
    model = keras.Model({"image": image, "place": place}, keras.layers.Dense(2)(joined))
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=1, verbose=0)


def same_batches(one: Any, other: Any) -> bool:
    alike = tf.nest.map_structure(np.array_equal, list(one), list(other))
    return all(tf.nest.flatten(alike))


@pytest.mark.parametrize(
    ("kind", "caching"),
    [
        ("text", {"cache": "memory"}),
        pytest.param("tokens", {"cache": "disk"}, marks=proof),
        ("image", {"cache": "memory", "cache_stage": "decoded"}),
        pytest.param("image", {"cache": "disk"}, marks=proof),
        pytest.param("image", {"cache": "disk", "cache_stage": "decoded"}, marks=proof),
    ],
)
def test_caches_change_nothing(
    make: Any, tmp_path: Path, kind: str, caching: dict[str, Any]
) -> None:
    directory, options = make(kind), options_of(kind, epochs=2)
    plain = list(reader.load(directory, **options, cache="off").numpy())
    for _ in range(2):
        cached = reader.load(directory, **options, **caching, cache_dir=tmp_path / "cache")
        assert same_batches(cached.numpy(), plain)
        for copies in cached.copies:
            copies.wait()


@pytest.mark.parametrize("kind", ["image", "tokens", *proofs("text", "packed")])
def test_a_resumed_stream_goes_on_to_the_byte(make: Any, kind: str) -> None:
    directory, options = make(kind), options_of(kind, epochs=2)
    whole = reader.load(directory, **options)
    expected = list(whole.numpy())
    state = json.loads(json.dumps(whole.state(3)))
    rest = reader.load(directory, **options, state=state)
    assert same_batches(rest.numpy(), expected[3:])
    # Features are no part of the order.
    plain = reader.load(directory, **options | {"features": ("year",)}, state=state)
    years = [inputs_of(batch)["year"].tolist() for batch in plain.numpy()]
    assert years == [inputs_of(batch)["year"].tolist() for batch in expected[3:]]


def test_mixed_sets_and_mixed_records(make: Any) -> None:
    sets = {make("image", name="a"): 1.0, make("image", 11, name="b"): 1.0}
    options = options_of("image", epochs=1, features=ASKED)
    mixture = reader.mix({str(path): weight for path, weight in sets.items()}, **options)
    assert sum(len(check("image", batch)) for batch in mixture.numpy()) == 30
    # Labels are mixed, captions cannot be.
    first = next(iter(sets))
    stream = reader.load(first, **options | {"augment": "standard,mixup"})
    plain = reader.load(first, **options)
    for (inputs, labels), (expected, _) in zip(stream.numpy(), plain.numpy(), strict=True):
        assert labels.shape[1] == 2 and set(inputs) == {"image", *ASKED}
        assert inputs["caption"].tolist() == expected["caption"].tolist()


def test_sets_with_other_features_are_not_mixed(make: Any) -> None:
    other = (Feature("caption", "text"), Feature("year", "float32"), FURTHER[2])
    sets = {str(make("text", name="a")): 1.0, str(make("text", name="b", more=other)): 1.0}
    with pytest.raises(UsageError, match=r"different features: .*'int64'.* in .*a"):
        reader.mix(sets, **options_of("text"))


def test_a_set_without_labels_gives_the_dictionary_alone(make_set: Any) -> None:
    directory = make_set({"train": (9,)}, labels="none")
    stream = reader.load(directory, batch_size=3, image_size=8, features=["id"], epochs=1)
    for batch in stream.numpy():
        assert set(batch) == {"id", "image"} and batch["id"].shape == (3,)


@pytest.mark.proof
def test_stages_and_rate_are_measured_with_features(make: Any, tmp_path: Path) -> None:
    for kind, changes in (("text", {}), ("image", {"cache_stage": "decoded"})):
        caching = {"cache": "memory"} if changes else {"cache": "off"}
        directory = make(kind, name=f"{kind}{len(changes)}")
        stream = reader.load(directory, **options_of(kind, **changes, **caching))
        assert reader.measure(stream, 0.05).records % 5 == 0
        times = reader.measure_stages(stream, 0.05)
        assert times.chain.cpu_seconds > 0


def test_random_access_has_them_all(make: Any) -> None:
    record = reader.random_access(make("text"))[7]
    assert record["caption"] == "Größe 7" and record["year"] == 1907
    assert record["place"].tolist() == [3.5, -7] and record["many"].tolist() == [0]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (("captoin",), "Unknown feature 'captoin' in .*set. Did you mean 'caption'. Choices: id, "),
        (("label",), "features names 'label', which every batch of .* has"),
        (("text",), "features names 'text', which every batch of .* has"),
        ("caption", "features is 'caption' in reader.load. Pass a tuple of names"),
        (3, "features is 3 in reader.load"),
    ],
)
def test_wrong_features_are_refused(make: Any, features: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reader.load(make("text"), batch_size=5, features=features)


@pytest.mark.proof
def test_the_command_reads_them(make: Any, shardmill: Any) -> None:
    directory = make("image")
    options = ("--batch-size", 5, "--seconds", 0.1, "--image-size", 8, "--json")
    done = shardmill("read", directory, *options, "--features", "caption, year")
    assert done.returncode == 0, done.stderr
    done = shardmill("read", directory, *options, "--features", "captoin")
    assert done.returncode == 2 and "Unknown feature 'captoin'" in done.stderr
