from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_format import Feature, Schema, UsageError, decode_example, encode_example
from shard_format.varints import pack_varints, unpack_varints

SCHEMA = Schema("test", (Feature("numbers", "int64", (-1,)),))
# Small ones, those at every change of length, and all others.
edges = [sign * (1 << bits) + step for bits in range(63) for sign in (1, -1) for step in (-1, 0)]
numbers = st.one_of(
    st.integers(0, 300), st.sampled_from(edges), st.integers(-(1 << 63), (1 << 63) - 1)
)


def one_by_one(values):
    """The definition, number by number."""
    written = bytearray()
    for value in values:
        value %= 1 << 64
        while value >= 0x80:
            written.append(value & 0x7F | 0x80)
            value >>= 7
        written.append(value)
    return bytes(written)


@given(st.lists(numbers, max_size=100))
def test_many_at_a_time_are_written_as_one_by_one(values):
    packed = pack_varints(np.array(values, np.int64))
    assert packed == one_by_one(values)
    assert unpack_varints(packed).tolist() == values


@given(st.lists(numbers, max_size=100))
def test_lists_and_arrays_give_the_same_example(values):
    encoded = encode_example(SCHEMA, {"numbers": values})
    assert encode_example(SCHEMA, {"numbers": np.array(values, np.int64)}) == encoded
    assert decode_example(encoded) == {"numbers": values}


@pytest.mark.parametrize("bad", [1.5, "x", 1 << 63, None])
def test_one_bad_number_among_many_is_refused(bad):
    with pytest.raises(UsageError, match="numbers"):
        encode_example(SCHEMA, {"numbers": [3] * 40 + [bad]})


@pytest.mark.parametrize("bad", [b"\x01" * 20 + b"\x80", b"\x80" * 30, b"\xff" * 10 + b"\x01" * 9])
def test_numbers_that_are_cut_or_too_long_are_refused(bad):
    with pytest.raises(ValueError, match=r"cut off|64 bits"):
        unpack_varints(bad)
