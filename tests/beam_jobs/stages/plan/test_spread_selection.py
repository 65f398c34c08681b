"""Records that are selected in rounds are those that one worker selects, to the byte."""

from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.stages.plan.left_out import MOST_EXAMPLES
from beam_jobs.stages.plan.top import Top
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from shard_format import load_build
from tests.beam_jobs.stages.plan.conftest import InMemory
from tests.beam_jobs.test_bounds import built
from tests.beam_jobs.test_selection import ROWS, WHERE, job, write
from tests.fixtures.proofs import examples

VARIANTS: dict[str, dict[str, Any]] = {
    "where": {"where": WHERE, "stratify": True, "keep_best": "score"},
    "top": {"top": "30%", "by": "words", "where": "score < 9", "balance": "oversample"},
    "top-per-label": {"top": "9", "by": "score", "top_per": "label", "sample_weight": "words / 2"},
    "near": {"where": WHERE, "keep_best": "score", "dedup": "near", "near_threshold": 0.9},
}


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize(
    ("name", "ranges"),
    [
        ("where", 3),
        ("top", 5),
        ("top-per-label", 3),
        ("near", 3),
        *(pytest.param(name, 40, marks=pytest.mark.proof) for name in ("where", "top", "near")),
    ],
)
def test_the_same_bytes(name: str, ranges: int, spread: Any, tmp_path: Path) -> None:
    source = write(tmp_path / "source", ROWS)
    options = job(source, tmp_path / "set", **VARIANTS[name])
    expected = built(options)
    left_out = load_build(tmp_path / "set")["left_out"]
    shutil.rmtree(options.out)
    done = spread(ranges)
    assert built(dataclasses.replace(options)) == expected
    assert load_build(tmp_path / "set")["left_out"] == left_out
    assert all(len(examples) == MOST_EXAMPLES for examples in left_out.values())
    assert len(done) % ranges == 0 and len(done) // ranges >= 8


values = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan, 1e-300, -1e300]),
    st.floats(width=32),
    st.integers(-(2**53), 2**53).map(float),
    st.none(),
)


@given(
    st.lists(st.tuples(values, st.sampled_from(["a", "b", None])), min_size=1, max_size=70),
    st.one_of(st.integers(1, 40).map(str), st.integers(1, 1000).map(lambda n: f"{n / 10}%")),
    st.booleans(),
    st.integers(1, 4),
    st.integers(0, 5),
)
@settings(max_examples=examples(300), deadline=None)
def test_the_top_is_exact(
    records: list[tuple[Any, Any]], size: str, per_label: bool, parts: int, left_out: int
) -> None:
    """Against sorting all of them, with ties by the hash, in parts that add up."""
    import pyarrow as pa

    from beam_jobs.stages.plan.top import _hashes
    from shard_format import id_hash

    table = pa.table(
        {
            "score": pa.array([value for value, _ in records], pa.float64()),
            "label": pa.array([label for _, label in records], pa.string()),
            "id_hash": pa.array([id_hash(f"r{n}") for n in range(len(records))], pa.uint64()),
        }
    )
    cuts = np.array_split(np.arange(len(table)), parts)
    sidecars = InMemory([table.take(pa.array(cut)) for cut in cuts if len(cut)])
    assignment = Assignment(np.zeros(len(table), np.int8))
    assignment.split_of[:left_out] = LEFT_OUT
    top = Top(size, "score", "score", ["a", "b"] if per_label else None)
    for _ in range(2):
        quantiles = [top.quantiles(len(table)) for _ in range(2)]
        for number, (keys, groups) in enumerate(top.keys(assignment, sidecars)):
            quantiles[number % 2].count(keys, groups)
        quantiles[0].histogram += quantiles[1].histogram
        top.choose(quantiles[0])
        for keys, groups in top.keys(assignment, sidecars):
            quantiles[0].collect_distinct(keys, groups)
        top = top.decided(quantiles[0])
    count, _ = top.leave_out(assignment, sidecars)
    hashes = _hashes(table, np.arange(len(table)))
    expected: set[int] = set()
    for label in ("a", "b", None) if per_label else (0,):
        ranked = sorted(
            (-value, int(hashes[n]), n)
            for n, (value, own) in enumerate(records)
            if n >= left_out and value is not None and not math.isnan(value)
            if label in (0, own)
        )
        share = math.ceil(len(ranked) * round(float(size[:-1]) * 10) / 1000) if "%" in size else 0
        expected |= {n for _, _, n in ranked[: share or int(size.rstrip("%").split(".")[0])]}
    kept = set(np.flatnonzero(assignment.split_of != LEFT_OUT).tolist())
    assert kept == expected
    assert count == max(0, len(records) - left_out) - len(kept)
