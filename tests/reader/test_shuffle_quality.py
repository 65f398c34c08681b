"""A class-sorted corpus: is an epoch told from a random one? See `benchmarks.shuffle_quality`.

The statistics are those of benchmarks/shuffle_statistics.py: class counts in batches of 64 and in
runs of 4,096, neighbours of one class, rank correlation, positions of one class in two epochs,
displacement of records. 100 seeds are compared with 400 of numpy's permutations by Kolmogorov and
Smirnov's test at 0.01, divided by the number of statistics. All seeds are fixed.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from shard_format import open_index

RECORDS = 16_000
SORTED = np.arange(RECORDS)


@pytest.fixture(scope="module")
def quality(repository):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository))  # benchmarks are not installed
        from benchmarks import shuffle_orders, shuffle_quality, shuffle_statistics

        yield shuffle_quality, shuffle_orders, shuffle_statistics


@pytest.fixture(scope="module")
def built(quality, tmp_path_factory):
    """A small set of a class-sorted corpus, by the real command."""
    folder = tmp_path_factory.mktemp("sorted")
    quality[1].write_corpus(folder / "sorted.jsonl", 2_000)
    arguments = quality[1].build_options(folder / "sorted.jsonl", folder / "set")
    subprocess.run([sys.executable, "-m", "cli.main", *arguments], check=True, capture_output=True)
    return folder / "set"


@pytest.fixture(scope="module")
def chance(quality):
    return quality[0].random_values(RECORDS)


@pytest.fixture(scope="module")
def disk(quality):
    """The order in which a build puts RECORDS records of a class-sorted corpus on disk."""
    ids = [f"sorted.jsonl/{number:012d}" for number in range(RECORDS)]
    return quality[1].order_by_key(ids, seed=0)


@pytest.fixture(scope="module")
def geometry(quality):
    """Of the documents of that corpus, of some 130 bytes each."""
    from reader.order.geometry import STREAMS, make_geometry
    from shard_format import ShardInfo, SplitInfo

    split = SplitInfo((ShardInfo("shard", RECORDS, RECORDS * 130, ""),), {})
    return make_geometry(split, STREAMS)


def told(quality, chance, way) -> set[str]:
    """The statistics by which an order is told from chance."""
    shuffle_quality, _, statistics = quality
    values = shuffle_quality.values_of(way, range(shuffle_quality.SEEDS))
    return {
        name
        for name, sample in values.items()
        if statistics.two_sample_p(sample, chance[name]) < shuffle_quality.LEAST_P
    }


def test_the_order_on_disk_is_that_of_the_keys(quality, built) -> None:
    """So that the other tests need not build a set of their size."""
    order, _ = quality[1].built_order(built)
    ids = sorted(open_index(built / "index" / "train.arrow")["record_id"].to_pylist())
    assert (order == quality[1].order_by_key(ids, seed=0)).all()


@pytest.mark.proof
@pytest.mark.parametrize("shuffle", ["full", "window"])
def test_classes_of_a_built_set_come_as_by_chance(quality, chance, disk, geometry, shuffle) -> None:
    names = told(quality, chance, quality[1].reader_orders(disk, geometry, shuffle))
    # Within a window records that lie side by side on disk go together: see docs on "full".
    assert names <= (set(quality[2].OF_RECORDS) if shuffle == "window" else set())


@pytest.mark.proof
def test_full_needs_no_shuffle_on_disk(quality, chance, geometry) -> None:
    assert not told(quality, chance, quality[1].reader_orders(SORTED, geometry, "full"))


def test_window_needs_one(quality, chance, geometry) -> None:
    names = told(quality, chance, quality[1].reader_orders(SORTED, geometry, "window"))
    assert set(quality[2].OF_ONE) - {"rank correlation"} <= names


@pytest.mark.proof
def test_a_buffer_of_ten_thousand_is_reported_by_every_statistic(quality, chance) -> None:
    names = told(quality, chance, quality[1].buffer_orders(SORTED))
    assert names == set(chance)


def test_chance_is_not_reported_from_chance(quality, chance) -> None:
    def fresh(seed, epoch):
        return np.random.default_rng([1, seed, epoch]).permutation(RECORDS)

    assert not told(quality, chance, fresh)


def test_two_sample_p_is_the_textbooks(quality) -> None:
    """Critical values of D for large samples: 1.358, 1.628, 1.949 times the root of 1/n + 1/m."""
    statistics = quality[2]
    values = np.arange(100_000) / 100_000
    for critical, level in ((1.358, 0.05), (1.628, 0.01), (1.949, 0.001)):
        shifted = values + critical * np.sqrt(2 / len(values))
        assert statistics.two_sample_p(values, shifted) == pytest.approx(level, rel=0.03)
    assert statistics.two_sample_p(values, values) == 1
