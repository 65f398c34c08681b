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
from reader.transforms import Brightness
from shard_format import UsageError

OPTIONS: dict[str, Any] = {"batch_size": 20, "image_size": 8, "seed": 3}


@pytest.fixture(scope="module")
def stream(tiny: Path) -> reader.Stream:
    return reader.load(tiny, **OPTIONS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"root_hash": "0" * 64}, "of another set or order .* root_hash is '0000.* in the stream"),
        ({"seed": 4}, "seed is 4 in it and 3 in the stream"),
        ({"seed": None}, "seed is None in it"),
        ({"batch_size": 10}, "batch_size is 10 in it and 20 in the stream"),
        ({"shuffle": "full"}, "shuffle is 'full' in it and 'window' in the stream"),
        ({"split": "test"}, "split is 'test' in it"),
        ({"streams": 8}, "streams is 8 in it and 64 in the stream"),
        ({"remainder": "wrap"}, "remainder is 'wrap' in it"),
        ({"sample": "balanced"}, "sample is 'balanced' in it"),
        ({"format": 2}, "has format 2, not 1, .*newer version"),
        ({"format": None}, "has format None, not 1"),
        ({"step": 5}, "epoch=2 and step=5, not .* a step below 5"),
        ({"step": -1}, "has epoch=2 and step=-1"),
        ({"step": 1.0}, "has epoch=2 and step=1.0"),
        ({"step": True}, "has epoch=2 and step=True"),
        ({"step": "1"}, "has epoch=2 and step='1'"),
        ({"step": None}, "has epoch=2 and step=None"),
        ({"step": 1 << 70}, "has epoch=2 and"),
        ({"epoch": -1}, "has epoch=-1 and"),
        ({"epoch": 2.5}, "has epoch=2.5 and"),
        ({"epoch": float("nan")}, "has epoch=nan and"),
        ({"epoch": 1 << 63}, "has epoch=9223372036854775808 and"),
        ({"epoch": 1 << 70}, "has epoch=1180591620717411303424 and"),
    ],
)
def test_a_state_that_does_not_fit(
    tiny: Path, stream: reader.Stream, changed: dict[str, Any], message: str
) -> None:
    state = json.loads(json.dumps(stream.state(11) | changed))
    with pytest.raises(UsageError, match=message):
        reader.load(tiny, **OPTIONS, state=state)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"augment": "standard"}, "with augment='none', not 'standard'"),
        ({"image_size": 16}, "with image_size=8, not 16"),
        ({"dtype": "float32"}, "with dtype='uint8', not 'float32'"),
        ({"augment": ["center_crop", Brightness(0.3)]}, "with augment='none', not "),
    ],
)
def test_a_state_of_other_batches(
    tiny: Path, stream: reader.Stream, changed: dict[str, Any], message: str
) -> None:
    state = json.loads(json.dumps(stream.state(3)))
    with pytest.raises(UsageError, match=f"{message}.*remove 'content'"):
        reader.load(tiny, **OPTIONS | changed, state=state)
    own = reader.load(tiny, **OPTIONS | changed).state(3)
    assert reader.load(tiny, **OPTIONS | changed, state=own).first_step == 3
    with pytest.raises(UsageError, match="of batches with"):
        reader.load(tiny, **OPTIONS, state=state | {"content": [1]})
    del state["content"]  # so are states of earlier versions
    assert reader.load(tiny, **OPTIONS | changed, state=state).first_step == 3


def test_parameters_of_transforms_are_told_apart(tiny: Path) -> None:
    weak, strong = (Brightness(delta) for delta in (0.1, 0.3))
    state = reader.load(tiny, **OPTIONS, augment=["center_crop", weak]).state(3)
    with pytest.raises(UsageError, match="of batches with augment="):
        reader.load(tiny, **OPTIONS, augment=["center_crop", strong], state=state)


@pytest.mark.parametrize("mangled", ["", "{}", [], 3, {}, {"epoch": 1}, np.zeros(3)])
def test_what_is_no_state(tiny: Path, mangled: Any) -> None:
    with pytest.raises(UsageError, match="The state has format"):
        reader.load(tiny, **OPTIONS, state=mangled)


def test_a_state_behind_the_last_epoch(tiny: Path, stream: reader.Stream) -> None:
    at_end = stream.state(10)
    finite = OPTIONS | {"epochs": 2, "remainder": "drop"}
    done = reader.load(tiny, **finite, state=at_end)
    assert done.dataset.cardinality() == 0 and list(done.dataset) == []
    assert done.state(global_step=10) == at_end
    with pytest.raises(UsageError, match=r"of epoch 2, beyond the 2 epochs of the stream"):
        reader.load(tiny, **finite, state=stream.state(11))
    with pytest.raises(UsageError, match=r"global_step=11 exceeds the 10 steps of all epochs"):
        done.state(global_step=11)


@pytest.mark.parametrize("steps", [-1, 1.0, True, None, "3", np.float32(2)])
def test_steps_that_are_no_count(stream: reader.Stream, steps: Any) -> None:
    with pytest.raises(UsageError, match=r"steps_done is .* an integer of at least 0"):
        stream.state(steps)


def test_steps_of_a_resumed_stream_are_those_of_the_whole_training(
    tiny: Path, stream: reader.Stream
) -> None:
    resumed = reader.load(tiny, **OPTIONS, state=stream.state(7))
    assert resumed.state(global_step=9) == stream.state(9) == stream.state(global_step=9)
    # 2 batches of this stream, or 2 steps in all? 9 may be meant either way too.
    for steps in (2, 9):
        with pytest.raises(UsageError, match=rf"steps_done={steps} may .* Pass global_step=7 \+"):
            resumed.state(steps)
    with pytest.raises(UsageError, match=r"global_step is 6 .*, and the stream begins at step 7"):
        resumed.state(global_step=6)


def test_steps_of_an_optimizer(stream: reader.Stream) -> None:
    state = stream.state(np.int64(7))
    assert (state["epoch"], state["step"]) == (1, 2) and json.loads(json.dumps(state)) == state


class Split(enum.StrEnum):
    TRAIN = "train"


@pytest.mark.parametrize(
    "split", [Split.TRAIN, pytest.param(np.str_("train"), marks=pytest.mark.proof)]
)
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
    with pytest.raises(UsageError, match="max_tokens is 12 in it and 30 in the stream"):
        reader.load(directory, batch_size=8, buckets=4, max_tokens=30, state=state)
    # Without buckets the order is the same, and a curriculum may go on with longer ones.
    state = reader.load(directory, batch_size=8, max_tokens=12).state(3)
    assert reader.load(directory, batch_size=8, max_tokens=30, state=state).first_step == 3


def test_a_thousand_weights_are_a_kilobyte_at_most(tiny: Path) -> None:
    weights = {f"class{number}": 1.0 + number for number in range(110)}
    stream = reader.load(tiny, **OPTIONS, sample=weights)
    assert len(json.dumps(stream.state(1 << 33))) <= 1000
    other = weights | {"class3": 1.0}
    with pytest.raises(UsageError, match="sample is "):
        reader.load(tiny, **OPTIONS, sample=other, state=stream.state(3))
    whole = {name: int(weight) for name, weight in reversed(weights.items())}
    assert reader.load(tiny, **OPTIONS, sample=whole, state=stream.state(3)).first_step == 3
