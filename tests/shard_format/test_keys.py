from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shard_format import id_hash, mix, shuffle_keys, split_positions


def test_mix_is_splitmix64():
    """The first outputs of the reference generator for seed 1234567."""
    gamma, state, mixed = 0x9E3779B97F4A7C15, 1234567, []
    for _ in range(3):
        mixed.append(int(mix(np.array([state], np.uint64))[0]))
        state = (state + gamma) % 2**64
    assert mixed == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(0, 2**63 - 1))
def test_different_ids_have_different_keys(hashes, seed):
    distinct = np.unique(np.array(hashes, np.uint64))
    assert len(np.unique(shuffle_keys(distinct, seed))) == len(distinct)


def test_a_key_does_not_depend_on_its_neighbours():
    hashes = [id_hash(f"hat/{number}.jpg") for number in range(50)]
    together = shuffle_keys(hashes, 3)
    assert [int(shuffle_keys(h, 3)[0]) for h in hashes] == together.tolist()


def test_the_seed_changes_the_order_and_never_the_split():
    hashes = np.array([id_hash(str(number)) for number in range(1000)], np.uint64)
    first, second = np.argsort(shuffle_keys(hashes, 0)), np.argsort(shuffle_keys(hashes, 1))
    assert np.mean(first == second) < 0.02
    assert np.all((split_positions(hashes) >= 0) & (split_positions(hashes) < 1))


def test_split_positions_are_uniform_and_independent_of_the_order():
    hashes = np.array([id_hash(str(number)) for number in range(100_000)], np.uint64)
    positions = split_positions(hashes)
    counts = np.histogram(positions, 20, (0, 1))[0]
    # Chi-squared with 19 degrees of freedom is below 43.8 with probability 0.999.
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8
    ranks = np.argsort(np.argsort(shuffle_keys(hashes, 0)))
    assert abs(np.corrcoef(ranks, positions)[0, 1]) < 0.02
