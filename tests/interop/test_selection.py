"""DuckDB selects the same records of an index as a build does with --where."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from shard_format import Manifest, open_split_index
from tests.beam_jobs.test_selection import ROWS, job, write

pytestmark = pytest.mark.interop


def rows_of(out: Path, manifest: Manifest) -> pa.Table:
    return pa.concat_tables(open_split_index(out, manifest, one) for one in manifest.splits)


@pytest.mark.parametrize(
    ("where", "sql"),
    [
        ("score >= 2.5 and lang == 'en'", "score >= 2.5 and lang = 'en'"),
        ("not (score < 6 or lang != 'de')", "not (score < 6 or lang <> 'de')"),
        ("lang not in ['de', 'fr'] and words > 5", "lang not in ('de', 'fr') and words > 5"),
        ("lang is None or chars / words < 4.35", "lang is null or chars / words < 4.35"),
        ("2 * score - 1 <= 9 and label != 'c1'", "2 * score - 1 <= 9 and label <> 1"),
        ("(score if lang == 'en' else 3) > 4", "case when lang = 'en' then score else 3 end > 4"),
    ],
)
def test_duckdb_selects_the_same_records(where: str, sql: str, tmp_path: Path) -> None:
    import duckdb

    from beam_jobs.run import preprocess

    source, staging = write(tmp_path / "source", ROWS), str(tmp_path / "staging")
    rows = {}
    for name, values in (("all", {}), ("some", {"where": where})):
        options = job(source, tmp_path / name, dedup="off", staging=staging, **values)
        rows[name] = rows_of(tmp_path / name, preprocess(options).manifest)
    connection = duckdb.connect()
    connection.register("index", rows["all"])
    selected = connection.execute(f'select record_id from "index" where {sql}').fetchall()
    assert 0 < len(selected) < len(ROWS)
    assert sorted(rows["some"]["record_id"].to_pylist()) == sorted(name for (name,) in selected)
