"""`where` and `sample` by a column: which records are read, how often, and that states hold."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reader
from reader.order.sampling import WeightSampler
from reader.records.selection import selected_records
from reader.records.split_index import WholeIndex
from shard_format import Feature, Schema, UsageError
from tests.fixtures.proofs import examples
from tests.fixtures.sets import write_shard_set

LANGUAGES = ("en", "de", None)
ROWS = [
    {"words": number * 7 % 31, "score": number / 10, "lang": LANGUAGES[number % 3]}
    for number in range(90)
]
COLUMNS = (
    pa.field("words", pa.int64()),
    pa.field("score", pa.float64()),
    pa.field("lang", pa.string()),
)
TABLE = pa.Table.from_pylist(
    [row | {"label": number % 2} for number, row in enumerate(ROWS)],
    pa.schema([*COLUMNS, pa.field("label", pa.int64())]),
)
INDEX = WholeIndex(TABLE)
CLASSES = {"label": ("even", "odd")}


def select(where: str) -> list[int]:
    return selected_records(where, INDEX, CLASSES, Path("train.arrow")).tolist()


comparisons = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["words", "score", "words * 2 - 1", "score / 2 + 1", "-words"]),
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
        st.one_of(st.integers(-30, 60), st.floats(0, 9).map(lambda one: round(one, 1))),
    ),
    st.builds("{} <= words < {}".format, st.integers(0, 30), st.integers(0, 40)),
    st.builds("words in {}".format, st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.sampled_from(["label == 'odd'", "label in ('even',)", "label != 'odd'", "words / 4 > 2.5"]),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=5,
)


@given(conditions)
@settings(max_examples=examples(300), deadline=None)
def test_a_condition_selects_what_python_does(where: str) -> None:
    names = [row | {"label": CLASSES["label"][number % 2]} for number, row in enumerate(ROWS)]
    expected = [number for number, row in enumerate(names) if eval(where, {}, dict(row))]
    assert select(where) == expected


@pytest.mark.parametrize(
    ("where", "same"),
    [
        ("lang == 'en'", ds.field("lang") == "en"),
        ("lang != 'en'", ds.field("lang") != "en"),  # without those that have none
        ("lang is None", ds.field("lang").is_null()),
        ("lang != None and score > 3", ~ds.field("lang").is_null() & (ds.field("score") > 3)),
        ("lang not in ['en', None]", ~ds.field("lang").isin(["en", None])),
        ("lang not in ['en']", ds.field("lang") == "de"),  # nor those that have none
    ],
)
def test_a_condition_selects_what_arrow_does(where: str, same: Any) -> None:
    numbered = TABLE.append_column("number", pa.array(range(len(TABLE))))
    expected = ds.dataset(numbered).to_table(filter=same)["number"].to_pylist()
    assert select(where) == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("words >", "is no condition .*Write columns, numbers"),
        ("", "is no condition"),
        ("3 > 2", "names no column"),
        ("worts > 2", "'worts', which is no column of train.arrow. Columns are words, score"),
        ("words == 'a'", r"does not fit the columns words \(int64\)"),
        ("lang > 5", r"does not fit the columns lang \(string\)"),
        ("words", "does not fit the columns words"),
        (
            "label == 'hat'",
            "names the class 'hat', which train.arrow has not. .* are even",
        ),
        ("__import__('os').remove('x')", "is not known"),
        ("words ** 2 > 3", "is not known"),
        ("words.size > 3", "is not known"),
        ("words in words", "In is not known"),
        ("words > 10 ** 400", "is not known"),
        (f"words > {10**400}", "is no condition"),
        ("(" * 500 + "words > 1" + ")" * 500, "is no condition"),
    ],
)
def test_bad_conditions(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        select(where)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 documents in three shards, each with its number."""
    directory = tmp_path_factory.mktemp("scored") / "set"
    features = (Feature("id", "text"), Feature("text", "text"), Feature("number", "int64"))
    records = [
        ({"id": f"r{number}", "text": f"text {number}", "number": number}, row)
        for number, row in enumerate(ROWS)
    ]
    shards = [records[:40], records[40:41], records[41:]]
    write_shard_set(directory, Schema("text", features), {"train": shards}, COLUMNS)
    return directory


def flat(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


def numbers(batches: Any) -> list[list[int]]:
    return [np.asarray(batch["number"]).tolist() for batch in batches]


@pytest.mark.parametrize("shuffle", ["window", "full", "off"])
def test_the_records_that_are_left_are_a_split(scored: Path, shuffle: str) -> None:
    options: dict[str, Any] = {"batch_size": 4, "features": ("number",), "seed": 2}
    options |= {"shuffle": shuffle, "epochs": 2, "where": "score >= 3 and lang == 'en'"}
    expected = [number for number in range(30, 90) if number % 3 == 0]
    stream = reader.load(scored, **options)
    assert stream.info.records == len(expected) == 20 and stream.steps_per_epoch == 5
    whole = numbers(stream)
    assert sorted(flat(whole[:5])) == sorted(flat(whole[5:])) == expected
    assert (whole[:5] == whole[5:]) == (shuffle == "off")
    assert numbers(stream.dataset) == whole
    resumed = reader.load(scored, **options, state=json.loads(json.dumps(stream.state(7))))
    assert numbers(resumed) == whole[7:]
    halves = [numbers(reader.load(scored, **options, worker=(one, 2))) for one in (0, 1)]
    assert halves == [[batch[one::2] for batch in whole] for one in (0, 1)]


def test_a_condition_without_a_record_is_refused(scored: Path) -> None:
    with pytest.raises(UsageError, match=r"selects none of the 90 records.*widen the condition"):
        reader.load(scored, batch_size=4, where="words > 1000")


def test_a_state_belongs_to_its_condition(scored: Path) -> None:
    options: dict[str, Any] = {"batch_size": 4}
    state = reader.load(scored, **options, where="score > 3").state(2)
    with pytest.raises(UsageError, match="where is 'score > 3' in it and 'score > 4'"):
        reader.load(scored, **options, where="score > 4", state=state)
    with pytest.raises(UsageError, match="where is 'score > 3' in it and None in the stream"):
        reader.load(scored, **options, state=state)
    long = " or ".join(f"words == {number}" for number in range(31))
    assert len(json.dumps(reader.load(scored, **options, where=long).state(1))) < 1000


@given(
    st.lists(st.one_of(st.integers(0, 5), st.floats(0, 1e6)), min_size=1, max_size=60).filter(any),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**32),
)
def test_a_record_comes_as_often_as_its_weight_says(
    weights: list[float], seed: int, epoch: int
) -> None:
    """Rounded up or down, in each epoch; which positions are asked for together changes nothing."""
    exact = np.array(weights, np.float64)
    sampler, count = WeightSampler(exact, seed), len(weights)
    drawn = sampler.numbers(np.arange(count), epoch)
    times = np.bincount(drawn, minlength=count)
    assert (np.abs(times - exact / exact.sum() * count) < 1 + 1e-6).all()
    assert not times[exact == 0].any()
    assert (sampler.numbers(np.arange(count)[1::3], epoch) == drawn[1::3]).all()


def test_records_are_drawn_by_a_column(scored: Path) -> None:
    options: dict[str, Any] = {"batch_size": 9, "features": ("number",), "sample": "words"}
    options |= {"epochs": 2, "seed": 3}
    stream = reader.load(scored, **options)
    whole = numbers(stream)
    assert stream.steps_per_epoch == 10 and numbers(stream.dataset) == whole
    counts = Counter(flat(whole[:10]))
    share = 90 / sum(row["words"] for row in ROWS)
    assert all(abs(counts[number] - row["words"] * share) < 1 for number, row in enumerate(ROWS))
    assert counts != Counter(flat(whole[10:]))
    resumed = reader.load(scored, **options, state=stream.state(13))
    assert numbers(resumed) == whole[13:]
    some = reader.load(scored, **options, where="words > 20")
    assert {ROWS[number]["words"] > 20 for number in flat(numbers(some))} == {True}


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ("wordz", "column in sample"),
        ("lang", "a column of string, not of numbers"),
        ("label", "sample='label' is nan for record number 0"),
    ],
)
def test_columns_that_are_no_weights(scored: Path, sample: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reader.load(scored, batch_size=4, sample=sample)


def test_too_few_records_are_reported(scored: Path) -> None:
    with pytest.raises(
        UsageError, match=r"batch_size=30 exceeds the 20 records that where=.* selects of 'train'"
    ):
        reader.load(scored, batch_size=30, where="score >= 3 and lang == 'en'")


def test_a_mixture_of_conditions(scored: Path, tmp_path: Path) -> None:
    import shutil

    copy = shutil.copytree(scored, tmp_path / "copy")
    mixed = reader.mix(
        {scored: 1, copy: 1}, batch_size=16, features=("number",), where="score > 8", epochs=1
    )
    assert {number > 80 for batch in numbers(mixed) for number in batch} == {True}


@pytest.mark.interop
@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        ("score > 3.3 and lang == 'en'", "score > 3.3 and lang = 'en'"),
        ("not (words < 9 or lang != 'de')", "not (words < 9 or lang <> 'de')"),
        (
            "lang in ('de', 'fr') and 2 * words - 1 <= 20",
            "lang in ('de', 'fr') and 2*words-1 <= 20",
        ),
    ],
)
def test_duckdb_selects_the_same_records(condition: str, sql: str) -> None:
    import duckdb

    table = TABLE.append_column("number", pa.array(range(TABLE.num_rows)))
    connection = duckdb.connect()
    connection.register("index", table)
    rows = connection.execute(f'select number from "index" where {sql} order by number').fetchall()
    assert rows and select(condition) == [number for (number,) in rows]
