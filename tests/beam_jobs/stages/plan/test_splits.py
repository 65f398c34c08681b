"""Splits and balance, decided on columns."""

from __future__ import annotations

import collections
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs.corpus.record import LABEL_SEPARATOR, join_labels
from beam_jobs.dedup.clusters import MEMBER_COLUMNS, NO_NEAR_PAIRS, find_clusters
from beam_jobs.dedup.exact import exact_pairs
from beam_jobs.stages.labels import class_counts, label_lists, sorted_names, strata_of
from beam_jobs.stages.plan import splits
from beam_jobs.stages.plan.balance import balance, class_weights
from shard_format import Feature, InputError, Schema, id_hash, split_positions
from tests.fixtures.proofs import examples

FIXTURES = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60)
)
FRACTIONS = {"train": 0.8, "validation": 0.1, "test": 0.1}


def _rows(labels, **more):
    return [
        {"id": f"r{number:04d}", "label": label}
        | {key: value(number) for key, value in more.items()}
        for number, label in enumerate(labels)
    ]


@FIXTURES
@given(
    st.lists(st.sampled_from("aabbbcdefgh"), min_size=1, max_size=300),
    st.integers(1, 4),
    st.sampled_from([FRACTIONS, {"train": 0.5, "test": 0.5}, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}]),
)
def test_stratified_is_exact_to_one_record(sidecars, assignment, by_id, labels, units, fractions):
    of = sidecars(_rows(labels), units)
    assigned = assignment(of)
    names = sorted(set(labels))
    splits.stratified(assigned, of, splits.Identity(of, None), fractions, names)
    split_of = by_id(of, assigned)
    for name in names:
        own = [split_of[f"r{number:04d}"] for number, label in enumerate(labels) if label == name]
        counts = collections.Counter(own)
        for number, fraction in enumerate(fractions.values()):
            assert abs(counts[number] - fraction * len(own)) <= 1
    # However units are cut:
    other = sidecars(_rows(labels), 1)
    again = assignment(other)
    splits.stratified(again, other, splits.Identity(other, None), fractions, names)
    assert by_id(other, again) == split_of


@FIXTURES
@given(
    st.lists(st.sets(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=200),
    st.integers(1, 4),
)
def test_records_of_several_labels_count_for_their_rarest_class(
    sidecars, assignment, by_id, sets, units
):
    """Every split has its fraction of the records of each rarest class, and of the others."""
    counts = collections.Counter(name for names in sets for name in names)
    schema = Schema("image", (Feature("label", "class_label", (-1,), late=True),))
    strata = strata_of(schema, sorted(counts), counts)
    of = sidecars(_rows([join_labels(names) for names in sets]), units)
    assigned = assignment(of)
    splits.stratified(assigned, of, splits.Identity(of, None), FRACTIONS, strata)
    split_of = by_id(of, assigned)
    rarest = [min(names, key=lambda one: (counts[one], one), default="") for names in sets]
    for name, total in collections.Counter(rarest).items():
        own = [split_of[f"r{at:04d}"] for at, one in enumerate(rarest) if one == name]
        for number, fraction in enumerate(FRACTIONS.values()):
            assert abs(own.count(number) - fraction * total) <= 1
    rule = balance("oversample", assigned, of, strata)
    if rule is None:
        return
    sums = collections.Counter()
    for begin, table in of:
        times = rule.occurrences(table, assigned.of(begin, table))
        for label, often, split in zip(
            table["label"].to_pylist(), times, assigned.of(begin, table), strict=True
        ):
            if label and split == 0:
                names = label.split(LABEL_SEPARATOR)
                sums[min(names, key=lambda one: (counts[one], one))] += often
    assert set(sums.values()) == {rule.size}


def _in_order(rows, fractions):
    """The split of each row, the plain way: components in an order, class by class."""
    components = collections.defaultdict(list)
    for number, row in enumerate(rows):
        text = f"group {row['group']}" if row["group"] else f"id {row['id']}"
        components[text].append(number)
    ordered = collections.defaultdict(list)
    for numbers in components.values():
        labels = collections.Counter(rows[number]["label"] or "" for number in numbers)
        label = min(labels, key=lambda name: (-labels[name], name))
        first = rows[numbers[0]]
        hashed = id_hash(first["group"]) if first["group"] else id_hash(first["id"])
        ordered[label].append((split_positions([hashed])[0], hashed, numbers))
    thresholds = np.cumsum(list(fractions.values()))[:-1]
    split_of = {}
    for members in ordered.values():
        total, before = sum(len(numbers) for *_, numbers in members), 0
        for *_, numbers in sorted(members):
            share = (before + len(numbers) / 2) / total
            before += len(numbers)
            for number in numbers:
                split_of[rows[number]["id"]] = int((thresholds <= share).sum())
    return split_of


@FIXTURES
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", None]), st.none() | st.integers(0, 9)),
        min_size=1,
        max_size=120,
    ),
    st.lists(st.integers(1, 9), min_size=2, max_size=5),
    st.integers(1, 3),
)
def test_stratified_as_the_plain_way(sidecars, assignment, by_id, rows, parts, units):
    fractions = {f"s{number}": part / sum(parts) for number, part in enumerate(parts)}
    rows = [
        {"id": f"r{number}", "label": label, "group": None if group is None else f"g{group}"}
        for number, (label, group) in enumerate(rows)
    ]
    of = sidecars(rows, units)
    assigned = assignment(of)
    splits.stratified(assigned, of, splits.Identity(of, None), fractions, list("abc"))
    assert by_id(of, assigned) == _in_order(rows, fractions)


@FIXTURES
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12)), min_size=1, max_size=120),
    st.booleans(),
)
def test_no_group_is_torn(sidecars, assignment, by_id, rows, stratify):
    rows = [
        {"id": f"r{number}", "label": label, "group": f"g{group}"}
        for number, (label, group) in enumerate(rows)
    ]
    of = sidecars(rows, 3)
    assigned = assignment(of)
    identity = splits.Identity(of, None)
    if stratify:
        splits.stratified(assigned, of, identity, FRACTIONS, list("abc"))
    else:
        splits.by_fraction(assigned, of, identity, FRACTIONS)
    split_of = by_id(of, assigned)
    sides = collections.defaultdict(set)
    for row in rows:
        sides[row["group"]].add(split_of[row["id"]])
    assert all(len(side) == 1 for side in sides.values())


def test_clusters_that_are_kept_are_on_one_side_and_tie_their_groups(sidecars, assignment, by_id):
    """a in g1 equals b in g2 equals c without group: all of g1, g2 and c go together."""
    rows = [{"id": f"{n}", "group": f"g{n % 40}", "fingerprint": f"f{n}"} for n in range(400)]
    for chain in range(100):
        rows.append({"id": f"a{chain}", "group": f"g{chain % 40}", "fingerprint": f"c{chain}"})
        rows.append({"id": f"b{chain}", "group": None, "fingerprint": f"c{chain}"})
    of = sidecars(rows, 4)
    clusters = find_clusters(
        partial(of.take, columns=list(MEMBER_COLUMNS)),
        exact_pairs(of),
        NO_NEAR_PAIRS,
        keep_all=True,
        drop_conflicts=False,
    )
    assigned = assignment(of)
    splits.by_fraction(assigned, of, splits.Identity(of, clusters), {"train": 0.5, "test": 0.5})
    split_of = by_id(of, assigned)
    assert set(split_of.values()) == {0, 1}
    for chain in range(100):
        members = [f"a{chain}", f"b{chain}", *(f"{n}" for n in range(chain % 40, 400, 40))]
        assert len({split_of[name] for name in members}) == 1


@FIXTURES
@given(st.integers(1, 200), st.integers(0, 100))
def test_what_is_added_later_moves_nothing(sidecars, assignment, by_id, before, added):
    names = []
    for count in (before, before + added):
        of = sidecars(_rows("ab" * 150)[:count], 2)
        assigned = assignment(of)
        splits.by_fraction(assigned, of, splits.Identity(of, None), FRACTIONS)
        names.append(by_id(of, assigned))
    assert names[0].items() <= names[1].items()


def test_given_splits(sidecars, assignment, by_id):
    given_split = ["train", "test", "train", "validation"]
    of = sidecars(_rows("abab", split=lambda number: given_split[number]))
    assigned = assignment(of)
    splits.by_corpus(assigned, of, splits.named_splits(of))
    assert assigned.names == ["train", "validation", "test"]
    split_of = by_id(of, assigned)
    assert [assigned.names[split_of[f"r{n:04d}"]] for n in range(4)] == given_split


def test_a_group_in_two_given_splits_is_reported(sidecars, assignment):
    rows = _rows("aaaa", split=lambda n: ["train", "test"][n % 2], group=lambda n: f"g{n // 2}")
    of = sidecars(rows)
    assigned = assignment(of)
    conflicts = splits.group_conflicts(*splits.by_corpus(assigned, of, splits.named_splits(of)))
    with pytest.raises(InputError, match=r"2 groups of --group-by .*two splits.* train and test"):
        splits.refuse_conflicts(conflicts, assigned.names)


UNBALANCED = st.lists(st.sampled_from("aaaaaaaabbbc"), min_size=1, max_size=200)


def _split_by_fraction(sidecars, assignment, labels, units):
    """(sidecars, assignment, label of every record)."""
    of = sidecars(_rows(labels), units)
    assigned = assignment(of)
    splits.by_fraction(assigned, of, splits.Identity(of, None), {"train": 0.7, "test": 0.3})
    label_of = np.concatenate([t["label"].to_numpy(zero_copy_only=False) for _, t in of])
    return of, assigned, label_of


@FIXTURES
@given(UNBALANCED, st.integers(1, 3))
def test_oversampling_is_exact(sidecars, assignment, labels, units):
    of, assigned, label_of = _split_by_fraction(sidecars, assignment, labels, units)
    rule = balance("oversample", assigned, of, sorted(set(labels)))
    extra = np.zeros(of.records, np.int64)
    if rule is not None:
        times = [rule.occurrences(table, assigned.of(begin, table)) for begin, table in of]
        extra = np.concatenate(times) - 1
        assert rule.left_out == 0 and rule.copies == extra.sum()
    assert (assigned.split_of[extra > 0] == 0).all()
    counts = collections.Counter()
    for number in np.flatnonzero(assigned.split_of == 0).tolist():
        counts[label_of[number]] += 1 + int(extra[number])
    assert len(set(counts.values())) <= 1
    for name in counts:
        own = extra[(label_of == name) & (assigned.split_of == 0)]
        assert own.max() - own.min() <= 1  # no record is repeated much more often than another


@FIXTURES
@given(UNBALANCED, st.integers(1, 3))
def test_undersampling_is_exact(sidecars, assignment, labels, units):
    of, assigned, label_of = _split_by_fraction(sidecars, assignment, labels, units)
    before = assigned.split_of.copy()
    rule = balance("undersample", assigned, of, sorted(set(labels)))
    assert rule is None or rule.copies == 0
    counts = collections.Counter(label_of[assigned.split_of == 0].tolist())
    assert len(set(counts.values())) <= 1
    assert (before != assigned.split_of).sum() == (rule.left_out if rule is not None else 0)
    assert (assigned.split_of[before == 1] == 1).all()  # the other split is left alone


def test_class_weights():
    weights = class_weights(np.array([40, 10, 0]))
    assert weights == [50 / 80, 50 / 20, 0.0]
    assert 40 * weights[0] == 10 * weights[1]


def test_classes_that_are_numbers_are_sorted_as_numbers():
    assert sorted_names({"10", "9", "0"}) == ["0", "9", "10"]
    assert sorted_names({"10", "9", "a"}) == ["10", "9", "a"]
    assert sorted_names({"10", "09"}) == ["09", "10"]


def test_records_with_several_labels():
    import pyarrow as pa

    labels = pa.chunked_array([["cat\x1fdog", "dog", "", None]])
    assert class_counts(labels) == {"cat": 1, "dog": 2}
    assert label_lists(labels, ["cat", "dog"]) == [[0, 1], [1], [], []]
