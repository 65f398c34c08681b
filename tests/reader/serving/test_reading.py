"""Reading by way of a service: the batches of local reading, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import reader
from shard_format import UsageError, index_parts

pytestmark = [pytest.mark.usefixtures("small_windows"), pytest.mark.timeout(600)]

proof = pytest.mark.proof
ByEpoch = Callable[..., list[Counter[bytes]]]
IMAGES: dict[str, Any] = {"batch_size": 4, "image_size": 16, "augment": "standard", "seed": 3}


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 2},
        pytest.param({"epochs": 2, "remainder": "pad", "shuffle": "full"}, marks=proof),
        pytest.param({"epochs": 1, "remainder": "keep", "shuffle": "off"}, marks=proof),
        pytest.param({"epochs": 1, "remainder": "wrap", "worker": (1, 2)}, marks=proof),
        pytest.param({"epochs": 1, "sample": {"class1": 1.0, "class2": 3.0}}, marks=proof),
        pytest.param({"epochs": 1, "label": ("label",), "remainder": "pad"}, marks=proof),
    ],
)
def test_every_batch_of_local_reading_comes_once(
    shared: str, tiny: Path, by_epoch: ByEpoch, options: dict[str, Any]
) -> None:
    local = reader.load(tiny, **IMAGES, **options)
    served = reader.load(tiny, **IMAGES, **options, service=shared)
    steps = local.steps_per_epoch
    assert served.steps_per_epoch == steps
    assert served.dataset.element_spec == local.dataset.element_spec
    assert served.dataset.cardinality() == local.dataset.cardinality()
    assert by_epoch(served.dataset, steps) == by_epoch(local.dataset, steps)


@pytest.mark.proof
def test_a_set_that_is_named_by_a_file_url(shared: str, tiny: Path, by_epoch: ByEpoch) -> None:
    local = reader.load(tiny, **IMAGES, epochs=1)
    served = reader.load(f"file://{tiny}", **IMAGES, epochs=1, service=shared)
    steps = local.steps_per_epoch
    # As a graph, for images are resized by OpenCV elsewhere.
    expected = local.numbered(0, 0, steps)
    assert by_epoch(served.dataset, steps) == by_epoch(expected, steps)


@pytest.mark.proof
def test_token_ids_in_groups_of_length(
    shared: str,
    token_set: Callable[..., Path],
    by_epoch: ByEpoch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    generator = np.random.default_rng(1)
    records = [(generator.integers(0, 50, 1 + n % 13).tolist(), n % 2) for n in range(70)]
    directory = token_set(train=records)
    for pad in ("longest", "none"):
        options: dict[str, Any] = {"batch_size": 4, "buckets": 2, "augment": "standard", "pad": pad}
        local = reader.load(directory, **options, epochs=2)
        served = reader.load(directory, **options, epochs=2, service=shared)
        steps = local.steps_per_epoch
        assert by_epoch(served.dataset, steps) == by_epoch(local.dataset, steps)
    assert "did not come" not in capfd.readouterr().err


@pytest.mark.proof
def test_documents(shared: str, text_set: Callable[..., Path], by_epoch: ByEpoch) -> None:
    directory = text_set(train=[(f"document number {n} of them", n % 2) for n in range(37)])
    options: dict[str, Any] = {"batch_size": 3, "augment": "standard"}
    local = reader.load(directory, **options, epochs=1)
    served = reader.load(directory, **options, epochs=1, service=shared)
    steps = local.steps_per_epoch
    # As a graph, for images are resized by OpenCV elsewhere.
    expected = local.numbered(0, 0, steps)
    assert by_epoch(served.dataset, steps) == by_epoch(expected, steps)


@pytest.mark.proof
def test_endless_epochs_follow_each_other(shared: str, tiny: Path, by_epoch: ByEpoch) -> None:
    local = reader.load(tiny, **IMAGES)
    served = reader.load(tiny, **IMAGES, service=shared)
    assert served.dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    steps = local.steps_per_epoch
    expected = by_epoch(local.dataset.take(3 * steps), steps)
    assert by_epoch(served.dataset.take(3 * steps), steps) == expected


@pytest.mark.proof
def test_one_data_set_may_be_iterated_twice_at_once(
    shared: str, tiny: Path, by_epoch: ByEpoch
) -> None:
    served = reader.load(tiny, **IMAGES, epochs=1, service=shared)
    steps = served.steps_per_epoch
    both = list(tf.data.Dataset.zip((served.dataset, served.dataset)))
    first, second = (by_epoch(batches, steps) for batches in zip(*both, strict=True))
    assert first == second
    assert len(first[0]) == steps


@pytest.mark.proof
def test_its_stages_are_those_of_other_machines(shared: str, tiny: Path) -> None:
    served = reader.load(tiny, **IMAGES, service=shared)
    with pytest.raises(UsageError, match=r"service's stream cannot be measured .* without service"):
        reader.measure_stages(served, 0.1)


@pytest.mark.proof
def test_states_lie_between_epochs(shared: str, tiny: Path, by_epoch: ByEpoch) -> None:
    local = reader.load(tiny, **IMAGES, epochs=2)
    served = reader.load(tiny, **IMAGES, epochs=2, service=shared)
    steps = local.steps_per_epoch
    assert served.state(steps) == local.state(steps)
    with pytest.raises(UsageError, match=r"Step 3 is within an epoch"):
        served.state(3)
    # A state of a stream without service may lie anywhere: what is left is read.
    rest = reader.load(tiny, **IMAGES, epochs=2, service=shared, state=local.state(5))
    resumed, expected = list(rest.dataset), list(local.dataset)
    left = steps - 5
    assert by_epoch(resumed[:left], steps) == by_epoch(expected[5:steps], steps)
    assert by_epoch(resumed[left:], steps) == by_epoch(expected[steps:], steps)


@pytest.mark.proof
def test_keras_fits_over_it(shared: str, tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=10, image_size=8, service=shared)
    model = keras.Sequential(
        [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(110)]
    )
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


@pytest.mark.proof
def test_damage_is_an_error_and_not_a_gap(shared: str, make_set: Any, by_epoch: ByEpoch) -> None:
    directory = make_set({"train": (40,)})
    shard = next(directory.glob("*train*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 4
    shard.write_bytes(data)
    stream = reader.load(directory, **IMAGES, epochs=1, service=shared)
    with pytest.raises(tf.errors.DataLossError):
        by_epoch(stream.dataset, stream.steps_per_epoch)


def test_a_set_whose_index_is_in_parts(
    shared: str,
    write_corpus: Any,
    begin_set: Any,
    by_epoch: ByEpoch,
    monkeypatch: Any,
    tmp_path: Path,
) -> None:
    """The graph that workers get looks columns up in all parts."""
    monkeypatch.setattr(index_parts, "PART_ROWS", 20)
    source = write_corpus("images", {f"a/{number}": number for number in range(60)})
    begin_set(source, "large", split="train=1", resize="none", num_shards=12)
    options = {"batch_size": 6, "image_size": 8, "augment": "standard", "epochs": 1, "streams": 2}
    local = reader.load(tmp_path / "large", **options, cache="off")
    served = reader.load(tmp_path / "large", **options, service=shared)
    steps = local.steps_per_epoch
    # As a graph, for images are resized by OpenCV elsewhere.
    expected = local.numbered(0, 0, steps)
    assert by_epoch(served.dataset, steps) == by_epoch(expected, steps)
