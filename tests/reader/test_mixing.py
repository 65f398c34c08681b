from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import chain, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import reader
from reader.graph import mixing as graph_mixing
from reader.order.class_sampling import shares
from reader.order.mixture import MixturePlan, MixtureStage
from reader.state import digest
from shard_format import UsageError, load_manifest

MakeSet = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("small_windows")

COUNTS = {"a": 37, "b": 20, "c": 11}  # primes and not, none a multiple of a window


@pytest.fixture
def sets(token_set: MakeSet) -> dict[str, str]:
    """Directories of sets whose records are one token, and tell their set by their label."""
    return {
        name: str(token_set(name=name, classes=3, train=[([n], label) for n in range(count)]))
        for label, (name, count) in enumerate(COUNTS.items())
    }


def batches_of(dataset: tf.data.Dataset) -> list[list[tuple[int, int]]]:
    """(set, record) of every record of every batch."""
    return [
        [(int(label), int(ids[0])) for ids, label in zip(*batch, strict=True)]
        for batch in dataset.as_numpy_iterator()
    ]


WEIGHTS = st.lists(st.floats(0, 1e3).filter(lambda w: w == 0 or w > 1e-3), min_size=3, max_size=3)


@given(
    st.lists(st.tuples(st.integers(1, 900), WEIGHTS.filter(any)), min_size=1, max_size=4),
    st.integers(1, 9),
    st.integers(0, 2**63 - 1),
    st.integers(0, 20_000),
)
def test_positions_before_are_those_of_the_blocks(
    weights: list[tuple[int, list[float]]], group: int, seed: int, position: int
) -> None:
    firsts = np.cumsum([0, *(size for size, _ in weights[:-1])]).tolist()
    stages = tuple(
        MixtureStage(first, shares(np.array(own), 256))
        for first, (_, own) in zip(firsts, weights, strict=True)
    )
    plan = MixturePlan(stages, group, seed)
    sets: list[int] = []
    for stage, end in zip(stages, [*firsts[1:], 20_000], strict=True):
        blocks = (plan.block(stage, n) for n in range(1 + (end - stage.first) // 256))
        sets += list(chain.from_iterable(block.tolist() for block in blocks))[: end - stage.first]
    positions = np.repeat(sets, group)
    before = np.bincount(positions[:position], minlength=3)
    assert plan.before(position).tolist() == before.tolist()
    size = 3 * group
    start = position - position % size
    batches = plan.batches(start, size, 1)
    for begin in range(start, start + 5 * size, size):
        own = [number for number, count in next(batches) for _ in range(count)]
        assert own == positions[begin : begin + size].tolist()


def test_a_batch_is_of_one_set_and_shares_change_at_a_step(sets: dict[str, str]) -> None:
    weights = {sets["a"]: 1, sets["b"]: 1, sets["c"]: 0}
    options: dict[str, Any] = {"batch_size": 6, "seed": 5, "epochs": 1, "steps_per_epoch": 90}
    options["schedule"] = {60: {sets["c"]: 1}, 20: {sets["c"]: 3, sets["a"]: 1}}
    stream = reader.mix(weights, batch_from="one", **options)
    batches = batches_of(stream.dataset)
    assert all(len({label for label, _ in batch}) == 1 for batch in batches)
    labels = [batch[0][0] for batch in batches]
    assert set(labels[:20]) == {0, 1} and set(labels[20:60]) == {0, 2} and set(labels[60:]) == {2}
    assert 4 <= labels[:20].count(0) <= 16 and labels[20:60].count(2) > 20
    for done in (0, 13, 20, 47, 89):
        state = json.loads(json.dumps(stream.state(done)))
        parts = [
            batches_of(
                reader.mix(weights, batch_from="one", **options, state=state, worker=(i, 2)).dataset
            )
            for i in range(2)
        ]
        joined = [sorted(chain(*together)) for together in zip(*parts, strict=True)]
        assert joined == [sorted(batch) for batch in batches[done:]]
    assert stream.shares == {sets["a"]: 0.5, sets["b"]: 0.5, sets["c"]: 0}
    for changed in ({"schedule": {20: {sets["c"]: 1}}}, {"batch_from": "all"}):
        with pytest.raises(UsageError, match="of another set or order"):
            reader.mix(weights, **{"batch_from": "one", **options, **changed}, state=state)


def test_the_graph_and_workers_of_a_data_loader_make_the_same_batches(
    sets: dict[str, str],
) -> None:
    weights = dict(zip(sets.values(), (0.5, 0.3, 0.2), strict=True))
    schedule = {25: {sets["b"]: 1, sets["c"]: 3}}
    for workers in (1, 2):
        stream = reader.mix(
            weights, batch_size=12, epochs=3, schedule=schedule, group=4, worker=(0, workers)
        )
        batches = batches_of(stream.dataset)
        mixed = graph_mixing.mixed(stream.opened, stream.plan, 7 * 12, workers)
        assert batches_of(mixed.take(len(batches) - 7)) == batches[7:]
        for count in (2, 3, 7):
            parts = [
                [
                    [(int(label), int(ids[0])) for ids, label in zip(*batch, strict=True)]
                    for batch in stream.arrays(4, (i, count))
                ]
                for i in range(count)
            ]
            turns = [batch for together in zip_longest(*parts) for batch in together if batch]
            assert turns == batches[4:]


def test_shares_are_the_weights_and_nothing_is_left_out(sets: dict[str, str]) -> None:
    weights = {sets["a"]: 5, sets["b"]: 2, sets["c"]: 1}
    stream = reader.mix(weights, batch_size=8, seed=3, epochs=60)
    assert stream.steps_per_epoch == sum(COUNTS.values()) // 8
    assert list(stream.shares.values()) == pytest.approx([5 / 8, 2 / 8, 1 / 8], abs=1 / 4096)
    records = [record for batch in batches_of(stream.dataset) for record in batch]
    taken = Counter(label for label, _ in records)
    assert len(records) == 60 * stream.steps_per_epoch * 8
    assert taken[0] / len(records) == pytest.approx(5 / 8, abs=0.06)
    for label, count in enumerate(COUNTS.values()):
        own = [number for of, number in records if of == label]
        # Each run of as many records as the set has is one epoch: all of them, once.
        for start in range(0, len(own) - count + 1, count):
            assert sorted(own[start : start + count]) == list(range(count))


@pytest.mark.parametrize(
    ("shuffle", "workers"),
    [
        ("full", 2),
        pytest.param("window", 1, marks=pytest.mark.proof),
        pytest.param("window", 4, marks=pytest.mark.proof),
    ],
)
def test_it_is_resumed_exactly_by_any_number_of_workers(
    sets: dict[str, str], shuffle: str, workers: int
) -> None:
    options: dict[str, Any] = {"batch_size": 12, "seed": 1, "epochs": 3, "group": 4}
    options |= {"shuffle": shuffle, "steps_per_epoch": 15}
    weights = dict(zip(sets.values(), (0.5, 0.3, 0.2), strict=True))
    whole = reader.mix(weights, **options)
    batches = batches_of(whole.dataset)
    assert len(batches) == whole.dataset.cardinality() == 45
    for done in (16, 45):
        state = json.loads(json.dumps(whole.state(done)))
        assert len(json.dumps(state)) <= 1000
        parts = [
            batches_of(reader.mix(weights, **options, state=state, worker=(i, workers)).dataset)
            for i in range(workers)
        ]
        joined = [sorted(chain(*together)) for together in zip(*parts, strict=True)]
        assert joined == [sorted(batch) for batch in batches[done:]]
        assert workers > 1 or parts[0] == batches[done:]


def test_a_state_is_of_these_sets_and_weights(sets: dict[str, str]) -> None:
    state = reader.mix({sets["a"]: 1, sets["b"]: 1}, batch_size=8).state(3)
    for weights in ({sets["a"]: 1, sets["b"]: 2}, {sets["a"]: 1, sets["c"]: 1}):
        with pytest.raises(UsageError, match=r"of another set or order .* sets is "):
            reader.mix(weights, batch_size=8, state=state)


def test_a_state_is_of_one_split(make_set: Any) -> None:
    """Steps of an epoch, if they are given, are the same for every split."""
    directory = make_set({"train": (20,), "test": (20,)})
    options: dict[str, Any] = {"batch_size": 4, "image_size": 8, "steps_per_epoch": 5}
    state = reader.mix({directory: 1}, **options).state(3)
    assert state["sets"] == digest([[load_manifest(directory).root_hash], [4096]])  # for ever
    with pytest.raises(UsageError, match=r"of another set or order .* sets is "):
        reader.mix({directory: 1}, **options, split="test", state=state)
    state = reader.mix({directory: 1}, **options, split="test").state(3)
    assert reader.mix({directory: 1}, **options, split="test", state=state).first_step == 3


def test_images_of_sets_that_are_stored_otherwise(make_set: Any, tmp_path: Path) -> None:
    first = make_set({"train": (20,)}, encoding="jpeg").rename(tmp_path / "jpeg")
    second = make_set({"train": (20,)}, encoding="png", sizes=((40, 30),))
    stream = reader.mix(
        {first: 1, second: 1}, batch_size=10, image_size=8, augment="standard", epochs=2
    )
    for images, labels in stream.dataset:
        digits = np.rint((images.numpy().mean(axis=(1, 2)) - 10) / 25).astype(int)
        assert (digits @ [100, 10, 1] == labels.numpy()).all()
    assert stream.info.records == 40 and stream.info.image_shape == (8, 8, 3)
    assert {info.records for info in stream.parts.values()} == {20}


def test_a_mixture_is_sampled_by_class(token_set: MakeSet) -> None:
    names = [
        str(token_set(name=name, train=[([n], int(n > 15)) for n in range(18)]))
        for name in ("a", "b")
    ]
    stream = reader.mix(dict.fromkeys(names, 1.0), batch_size=8, sample="balanced", epochs=20)
    labels = np.concatenate([batch[1] for batch in stream.dataset.as_numpy_iterator()])
    assert labels.mean() == pytest.approx(0.5, abs=0.02)


def test_weights_of_classes_in_any_mapping(sets: dict[str, str]) -> None:
    weights = {"class0": 1.0}
    states = [
        reader.mix({sets["a"]: 1}, batch_size=8, sample=sample).state(3)
        for sample in (weights, MappingProxyType(weights))
    ]
    assert states[0] == states[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": {}}, "The weights are {} .* Pass the weight of each directory"),
        ({"weights": {"a": 0}}, "The weight of a is 0 .* a number above 0 and below 1e9"),
        ({"weights": {"a": "1"}}, "The weight of a is '1' .* a number above 0 and below 1e9"),
        ({"batch_from": "each"}, "Unknown batch_from 'each' in reader.mix"),
        ({"batch_from": "one", "group": 4}, "group=4 does not work with batch_from='one'"),
        ({"batch_from": "one", "batch_size": 0}, "batch_size is 0 in reader.mix"),
        ({"schedule": [1]}, r"schedule is \[1\] in reader.mix. Pass the weights from each step"),
        ({"schedule": {0: {}}}, "The step in schedule is 0 .* Pass an integer of at least 1"),
        ({"schedule": {9: {}}}, "The weights from step 9 on are {} in reader.mix"),
        ({"schedule": {9: {"x": 1}}}, "Unknown directory in schedule 'x' in reader.mix"),
        ({"buckets": 4}, "buckets=4 does not work in reader.mix. Batches of a mixture"),
        ({"shufle": "off"}, "Unknown option 'shufle' in reader.mix. Did you mean 'shuffle'"),
        ({"worker": (0, 3), "batch_size": 9}, r"3 workers do not divide group=8 .*group=3"),
        ({"group": 0}, "group is 0 .* Pass an integer of at least 1"),
        ({"worker": (0, "4")}, "the count in worker is '4' .* Pass an integer"),
        ({"epochs": 0}, r"epochs is 0 in reader.mix. Pass an integer in \[1, "),
        ({"epochs": -1}, "epochs is -1 .* Pass an integer"),
        ({"epochs": 2.5}, "epochs is 2.5 .* Pass an integer"),
        ({"epochs": "3"}, "epochs is '3' .* Pass an integer"),
        ({"steps_per_epoch": 0}, "steps_per_epoch is 0 .* of at least 1"),
    ],
)
def test_wrong_options(sets: dict[str, str], change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"weights": {sets["a"]: 1}, "batch_size": 8, **change}
    with pytest.raises(UsageError, match=message):
        reader.mix(**arguments)


def test_a_set_that_is_in_a_mixture_twice(sets: dict[str, str], tmp_path: Path) -> None:
    """The weight of one of them was forgotten, or every record came twice in a row."""
    (tmp_path / "link").symlink_to(sets["a"])
    for other in (Path(sets["a"]), f"{sets['a']}/.", tmp_path / "link", f"file://{sets['a']}"):
        weights: dict[Any, float] = {sets["a"]: 1, other: 3}
        with pytest.raises(
            UsageError, match=r"are the same directory in reader.mix.*the sum of both"
        ):
            reader.mix(weights, batch_size=8)


def test_sets_that_do_not_fit_together(
    sets: dict[str, str], token_set: MakeSet, text_set: MakeSet
) -> None:
    other = token_set(name="other", classes=2, train=[([1], 0)])
    with pytest.raises(UsageError, match=r"have different classes: .*'class2'.* in "):
        reader.mix({sets["a"]: 1, other: 1}, batch_size=8)
    text = text_set(classes=3, train=[("words", 0)])
    with pytest.raises(UsageError, match=r"have different record types: 'tokens' in .*'text' in "):
        reader.mix({sets["a"]: 1, text: 1}, batch_size=8)
