"""Examples that are parsed many at a time give what each gives by itself, whoever wrote them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_format import (
    DamageError,
    Feature,
    Schema,
    decode_example,
    encode_example,
    encode_features,
    finish_example,
)
from shard_format.example import FIELD_1, FIELD_2, STORAGE_TAG, delimited
from shard_format.example_parser import (
    Examples,
    UnreadableExampleError,
    join_columns,
    join_examples,
    one_example,
    parse_examples,
)

FEATURES = (
    Feature("id", "text"),
    Feature("image", "image", (-1, -1, 3), encoding="jpeg"),
    Feature("tokens", "int64", (-1,)),
    Feature("box", "float32", (4,)),
    Feature("several", "bytes", (-1,)),
    Feature("label", "class_label", late=True),
)
WANTED = tuple(one for one in FEATURES if one.name not in ("id", "several"))
int64 = st.one_of(st.integers(0, 300), st.integers(-(1 << 63), (1 << 63) - 1))
records = st.fixed_dictionaries(
    {
        "id": st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
        "image": st.one_of(st.binary(max_size=20), st.integers(0, 20_000).map(bytes)),
        "tokens": st.lists(int64, max_size=20),
        "box": st.lists(st.floats(width=32, allow_nan=False), min_size=4, max_size=4),
        "several": st.lists(st.binary(max_size=3), max_size=3),
        "label": int64,
    }
)


def as_written(values, how: int) -> bytes:
    """A record as shardmill writes it, or as other programs may."""
    if how == 0:
        return encode_example(Schema("test", FEATURES), values)
    features = list(FEATURES)
    random.Random(how).shuffle(features)
    if how == 1:
        return finish_example(encode_features(features, values))
    if how == 2:  # TensorFlow's own writer
        import tensorflow as tf

        return tf.train.Example.FromString(as_written(values, 0)).SerializeToString()
    # One number a field, and a feature that nobody knows.
    lists = b"".join(bytes([0x08]) + _varint(number) for number in values["tokens"])
    tokens = delimited(FIELD_2, delimited(STORAGE_TAG["int64_list"], lists))
    entry = delimited(FIELD_1, delimited(FIELD_1, b"tokens") + tokens)
    others = [feature for feature in features if feature.name != "tokens"]
    unknown = encode_features([Feature("unknown", "int64")], {"unknown": 7})
    return finish_example(unknown + entry + encode_features(others, values))


def _varint(number: int) -> bytes:
    number %= 1 << 64
    groups = []
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def in_a_buffer(serialized: list[bytes]) -> Examples:
    """With other bytes around each."""
    padded = [b"\xff" * 3 + one + b"\x0a" for one in serialized]
    ends = np.cumsum([len(one) for one in padded]) - 1
    begins = ends - [len(one) for one in serialized]
    return Examples(np.frombuffer(b"".join(padded), np.uint8), begins, ends)


def same(columns, row: int, decoded) -> bool:
    image = bytes(columns["image"][row])
    numbers = {name: columns[name][row].tolist() for name in ("tokens", "box", "label")}
    return [image] == decoded["image"] and all(
        numbers[name] == decoded[name] for name in ("tokens", "box", "label")
    )


@given(st.lists(st.tuples(records, st.integers(0, 3)), min_size=1, max_size=8))
def test_each_example_has_its_values(rows):
    serialized = [as_written(values, how) for values, how in rows]
    columns = parse_examples(in_a_buffer(serialized), WANTED)
    assert set(columns) == {feature.name for feature in WANTED}
    for row, one in enumerate(serialized):
        assert same(columns, row, decode_example(one))


@given(st.data(), st.lists(records, min_size=1, max_size=5))
def test_a_damaged_example_is_named_or_read_as_by_itself(data, rows):
    serialized = [as_written(values, 0) for values in rows]
    row = data.draw(st.integers(0, len(rows) - 1))
    damaged = bytearray(serialized[row])
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    serialized[row] = bytes(damaged[: data.draw(st.integers(1, len(damaged)))])
    try:
        columns = parse_examples(in_a_buffer(serialized), WANTED)
    except UnreadableExampleError as error:
        assert error.number == row
        return
    for number, one in enumerate(serialized):
        assert same(columns, number, decode_example(one))


@given(st.data(), st.lists(records, min_size=2, max_size=8))
def test_columns_are_taken_and_joined(data, rows):
    columns = parse_examples(in_a_buffer([as_written(one, 0) for one in rows]), WANTED)
    cut = data.draw(st.integers(1, len(rows) - 1))
    order = np.array(data.draw(st.permutations(range(len(rows)))))
    for name, column in columns.items():
        joined = join_columns([column.take(order[:cut]), column.take(order[cut:])])
        assert list(map(bytes, joined)) == [bytes(column[number]) for number in order], name
        mask = order % 2 == 0
        assert list(map(bytes, column.take(mask))) == [
            bytes(column[number]) for number in np.flatnonzero(mask)
        ]


def test_lists_are_cut_and_filled():
    values = [{"tokens": list(range(length))} for length in (0, 3, 5)]
    feature = (Feature("tokens", "int64", (-1,)),)
    serialized = [finish_example(encode_features(feature, one)) for one in values]
    tokens = parse_examples(in_a_buffer(serialized), feature)["tokens"]
    assert tokens.dense(6, -1).tolist() == [
        [-1] * 6,
        [0, 1, 2, -1, -1, -1],
        [0, 1, 2, 3, 4, -1],
    ]
    assert [row.tolist() for row in tokens.cut(3)] == [[], [0, 1, 2], [0, 1, 2]]
    assert tokens.cut(5) is tokens


def test_examples_are_replaced_and_joined():
    examples = join_examples(map(one_example, [b"a", b"", b"ccc"]))
    assert list(map(bytes, examples)) == [b"a", b"", b"ccc"]
    changed = examples.replaced(np.array([2, 0]), [b"zz", b"y"])
    assert list(map(bytes, changed)) == [b"y", b"", b"zz"]
    assert list(map(bytes, examples)) == [b"a", b"", b"ccc"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"image": b"", "box": [1.0]}, "feature 'box' has 1 values, not 4"),
        ({"box": [1.0] * 4}, "no value for feature 'image'"),
    ],
)
def test_what_is_wrong_is_said(values, problem):
    features = (
        Feature("image", "image", (-1, -1, 3), encoding="jpeg"),
        Feature("box", "float32", (4,)),
    )
    good = encode_features(features, {"image": b"x", "box": [0.0] * 4})
    given_features = [one for one in features if one.name in values]
    bad = encode_features(given_features, values)
    examples = in_a_buffer([finish_example(good), finish_example(bad)])
    with pytest.raises(UnreadableExampleError, match=problem) as caught:
        parse_examples(examples, features)
    assert caught.value.number == 1


def test_several_values_of_bytes_are_refused():
    features = (Feature("image", "image", (-1, -1, 3), encoding="jpeg"),)
    several = (Feature("image", "bytes", (-1,)),)
    twice = finish_example(encode_features(several, {"image": [b"a", b"b"]}))
    with pytest.raises(UnreadableExampleError, match="feature 'image' has 2 values, not 1"):
        parse_examples(in_a_buffer([twice]), features)


def test_what_is_no_example_is_refused():
    with pytest.raises(DamageError):
        decode_example(b"\xff")
    with pytest.raises(UnreadableExampleError, match=r"not a tf\.train\.Example"):
        parse_examples(in_a_buffer([b"\xff"]), WANTED)
