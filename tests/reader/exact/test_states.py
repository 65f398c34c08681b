"""States that do not fit, and what a state depends on."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader
from shard_format import UsageError

OPTIONS: dict[str, Any] = {"batch_size": 20, "image_size": 8, "seed": 3}


@pytest.fixture(scope="module")
def stream(tiny: Path) -> reader.Stream:
    return reader.load(tiny, **OPTIONS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"root_hash": "0" * 64}, "the same set and order, got root_hash='0000.* where the stream"),
        ({"seed": 4}, "got seed=4 in it where the stream has 3"),
        ({"seed": None}, "got seed=None"),
        ({"batch_size": 10}, "got batch_size=10 in it where the stream has 20"),
        ({"shuffle": "full"}, "got shuffle='full' in it where the stream has 'window'"),
        ({"split": "test"}, "got split='test'"),
        ({"streams": 8}, "got streams=8 in it where the stream has 64"),
        ({"remainder": "wrap"}, "got remainder='wrap'"),
        ({"sample": "balanced"}, "got sample='balanced'"),
        ({"format": 2}, "of format 1, got 2 .*newer version"),
        ({"format": None}, "of format 1, got None"),
        ({"step": 5}, "a step below 5, got epoch=2 and step=5"),
        ({"step": -1}, "got\\s+epoch=2 and step=-1"),
        ({"step": 1.0}, "got\\s+epoch=2 and step=1.0"),
        ({"step": True}, "got\\s+epoch=2 and step=True"),
        ({"step": "1"}, "got\\s+epoch=2 and step='1'"),
        ({"step": None}, "got\\s+epoch=2 and step=None"),
        ({"step": 1 << 70}, "got epoch=2"),
        ({"epoch": -1}, "got epoch=-1"),
        ({"epoch": 2.5}, "got epoch=2.5"),
        ({"epoch": float("nan")}, "got epoch=nan"),
        ({"epoch": 1 << 63}, "got epoch=9223372036854775808"),
        ({"epoch": 1 << 70}, "got epoch=1180591620717411303424"),
    ],
)
def test_a_state_that_does_not_fit(
    tiny: Path, stream: reader.Stream, changed: dict[str, Any], message: str
) -> None:
    state = json.loads(json.dumps(stream.state(11) | changed))
    with pytest.raises(UsageError, match=message):
        reader.load(tiny, **OPTIONS, state=state)


@pytest.mark.parametrize("mangled", ["", "{}", [], 3, {}, {"epoch": 1}, np.zeros(3)])
def test_what_is_no_state(tiny: Path, mangled: Any) -> None:
    with pytest.raises(UsageError, match="a state must be"):
        reader.load(tiny, **OPTIONS, state=mangled)


def test_a_state_behind_the_last_epoch(tiny: Path, stream: reader.Stream) -> None:
    at_end = stream.state(10)
    finite = OPTIONS | {"epochs": 2, "remainder": "drop"}
    done = reader.load(tiny, **finite, state=at_end)
    assert done.dataset.cardinality() == 0 and list(done.dataset) == []
    assert done.state(0) == at_end
    with pytest.raises(UsageError, match=r"within the epochs of the stream \(2\), got epoch 2"):
        reader.load(tiny, **finite, state=stream.state(11))
    with pytest.raises(UsageError, match=r"at most the steps of the stream \(0\), got 1"):
        done.state(1)


@pytest.mark.parametrize("steps", [-1, 1.0, True, None, "3", np.float32(2)])
def test_steps_that_are_no_count(stream: reader.Stream, steps: Any) -> None:
    with pytest.raises(UsageError, match="steps_done must be a whole number of at least 0"):
        stream.state(steps)


def test_steps_of_an_optimizer(stream: reader.Stream) -> None:
    state = stream.state(np.int64(7))
    assert (state["epoch"], state["step"]) == (1, 2) and json.loads(json.dumps(state)) == state


class Split(enum.StrEnum):
    TRAIN = "train"


@pytest.mark.parametrize("split", [Split.TRAIN, np.str_("train")])
def test_a_name_that_is_more_than_a_string_comes_back_from_json(tiny: Path, split: str) -> None:
    state = reader.load(tiny, **OPTIONS, split=split).state(3)
    for stored in (state, json.loads(json.dumps(state))):
        assert reader.load(tiny, **OPTIONS, split=split, state=stored).first_step == 3
    state = reader.mix({tiny: 1}, **OPTIONS, shuffle=np.str_("full")).state(3)
    stored = json.loads(json.dumps(state))
    assert reader.mix({tiny: 1}, **OPTIONS, shuffle=np.str_("full"), state=stored).first_step == 3


def test_lengths_are_part_of_the_order_where_there_are_buckets(
    token_set: Callable[..., Path],
) -> None:
    """Where records are cut decides which of them are of one length."""
    lengths = np.random.default_rng(0).integers(1, 40, 64).tolist()
    directory = token_set(train=[([n % 50] * size, 0) for n, size in enumerate(lengths)])
    state = reader.load(directory, batch_size=8, buckets=4, max_tokens=12).state(3)
    with pytest.raises(UsageError, match="got max_tokens=12 in it where the stream has 30"):
        reader.load(directory, batch_size=8, buckets=4, max_tokens=30, state=state)
    # Without buckets the order is the same, and a curriculum may go on with longer ones.
    state = reader.load(directory, batch_size=8, max_tokens=12).state(3)
    assert reader.load(directory, batch_size=8, max_tokens=30, state=state).first_step == 3


def test_a_thousand_weights_are_a_kilobyte_at_most(tiny: Path) -> None:
    weights = {f"class{number}": 1.0 + number for number in range(110)}
    stream = reader.load(tiny, **OPTIONS, sample=weights)
    assert len(json.dumps(stream.state(1 << 33))) <= 1000
    other = weights | {"class3": 1.0}
    with pytest.raises(UsageError, match="got sample="):
        reader.load(tiny, **OPTIONS, sample=other, state=stream.state(3))
    whole = {name: int(weight) for name, weight in reversed(weights.items())}
    assert reader.load(tiny, **OPTIONS, sample=whole, state=stream.state(3)).first_step == 3
