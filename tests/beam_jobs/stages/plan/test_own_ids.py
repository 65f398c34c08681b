"""Ids and licenses that a column of the corpus has."""

from __future__ import annotations

import json
import shutil
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reader
from beam_jobs.corpus.licenses import license_id
from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.options import TextOptions
from beam_jobs.quarantine import export, replay_options
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from shard_format import InputError, UsageError, load_manifest, verify

ROWS: Sequence[dict[str, Any]] = [
    {"key": f"k/{number * 7919 % 1000:03d}.é", "text": f"document {number}", "number": number}
    for number in range(200)
]
OPTIONS: dict[str, Any] = {"no_labels": True, "no_report": True, "dedup": "exact", "workers": 1}


def as_lines(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    folder.mkdir()
    for part in range(3):  # several units
        lines = [json.dumps(row) + "\n" for row in rows[part::3]]
        (folder / f"{part}.jsonl").write_text("".join(lines))
    return folder


def as_parquet(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "all.parquet", row_group_size=30)
    return folder


def as_arrow(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    folder.mkdir()
    feather.write_feather(pa.Table.from_pylist(list(rows)[::-1]), str(folder / "all.arrow"))
    return folder


def build(source: Path, out: Path, **options: Any) -> Any:
    return preprocess(TextOptions((str(source),), str(out), **(OPTIONS | options)))


def ids_of(out: Path) -> dict[str, str]:
    return {
        one["id"]: one["text"]
        for split in ("train", "test")
        for one in reader.random_access(out, split)
    }


@pytest.mark.parametrize("ranges", [0, 5])
def test_a_set_does_not_depend_on_the_files_of_its_records(
    ranges: int, spread: Any, tmp_path: Path
) -> None:
    done = spread(ranges) if ranges else []
    hashes = set()
    for form in (as_parquet, as_arrow):
        source = form(tmp_path / form.__name__, ROWS)
        report = build(source, tmp_path / f"{form.__name__}-set", id_column="key")
        assert report.manifest.ledger.kept == len(ROWS)
        hashes.add(report.manifest.root_hash)
    assert len(hashes) == 1
    assert ids_of(tmp_path / "as_arrow-set") == {row["key"]: row["text"] for row in ROWS}
    assert bool(done) == bool(ranges)
    assert verify(tmp_path / "as_parquet-set")[1] == []


@pytest.mark.parametrize("ranges", [0, 5])
@pytest.mark.parametrize("text", ["document 0", "another one"])
def test_an_id_of_two_records_is_refused(
    text: str, ranges: int, spread: Any, tmp_path: Path
) -> None:
    if ranges:
        spread(ranges)
    rows = [*ROWS, {"key": ROWS[0]["key"], "text": text, "number": 0}]
    source = as_lines(tmp_path / "source", rows)
    with pytest.raises(
        InputError, match=r"2 records have the id 'k/000.é'. --id-column 'key' must"
    ):
        build(source, tmp_path / "set", id_column="key")
    # Nothing is lost: without that column the same corpus is a set.
    assert build(source, tmp_path / "set").manifest.ledger.read == len(rows)


@given(ids=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), unique=True))
def test_any_text_is_an_id(ids: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    own_ids = sorted({*ids, "one more"})
    rows = [{"key": own, "text": f"text {number}"} for number, own in enumerate(own_ids)]
    (folder / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = build(folder / "lines.jsonl", folder / "set", id_column="key")
    named = {row["key"]: row["text"] for row in rows if row["key"].strip()}
    assert ids_of(folder / "set") == named
    assert report.manifest.ledger.reasons == (
        {"no-id": len(rows) - len(named)} if len(named) < len(rows) else {}
    )


def test_numbers_and_a_prefix(tmp_path: Path) -> None:
    source = as_parquet(tmp_path / "source", ROWS)
    build(source, tmp_path / "set", id_column="number", id_prefix="first")
    assert ids_of(tmp_path / "set").keys() == {f"first/{row['number']}" for row in ROWS}
    # A later generation may have ids of its own, and none of these.
    more = [{"key": "x", "text": f"more {number}", "number": number} for number in range(150, 250)]
    later = as_parquet(tmp_path / "later", more)

    def added(prefix: str) -> None:
        options = {"id_column": "number", "id_prefix": prefix, "append": True}
        append(TextOptions((str(later),), str(tmp_path / "set"), **(OPTIONS | options)))

    with pytest.raises(InputError, match="50 records have the id of another one"):
        added("first")
    added("second")
    assert len(ids_of(tmp_path / "set")) == len(ROWS) + len(more)


def test_a_rejected_record_is_found_where_it_was(tmp_path: Path) -> None:
    rows = [
        {"key": f"a{number}", "text": "" if number == 3 else f"t {number}"} for number in range(9)
    ]
    source = tmp_path / "lines.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"text": "without"}]))
    report = build(source, tmp_path / "set", id_column="key")
    assert report.manifest.ledger.reasons == {"empty": 1, "no-id": 1}
    export(tmp_path / "set", tmp_path / "files")
    files = tmp_path / "files" / "files" / "lines.jsonl"
    texts = [json.loads(path.read_text()) for path in files.iterdir()]
    assert sorted(texts, key=str) == sorted([rows[3], {"text": "without"}], key=str)


def test_columns_that_are_missing_or_not_for_this_are_refused(tmp_path: Path) -> None:
    source = as_parquet(tmp_path / "source", ROWS)
    with pytest.raises(InputError, match=r"has no column 'id' \(--id-column\)"):
        build(source, tmp_path / "set", id_column="id")
    for options in ({"license_column": "license"}, {"require_license": "MIT"}):
        with pytest.raises(UsageError, match="Give both"):
            build(source, tmp_path / "set", **options)


LICENSES = {
    "CC-BY-4.0": ["cc-by-4.0", " CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/deed.de"],
    "cc-by-nc-sa-3.0-us": ["http://creativecommons.org/licenses/by-nc-sa/3.0/us/legalcode"],
    "CC0-1.0": ["https://creativecommons.org/publicdomain/zero/1.0/", "cc0 1.0"],
    "cc-pdm-1.0": ["https://creativecommons.org/publicdomain/mark/1.0/"],
    "Apache-2.0": ["apache_2.0", "https://spdx.org/licenses/Apache-2.0.html"],
    "MIT": ["mit", "https://spdx.org/licenses/MIT"],
}


@pytest.mark.parametrize("name", LICENSES)
def test_spellings_of_a_license_are_one(name: str) -> None:
    assert {license_id(spelling) for spelling in LICENSES[name]} == {license_id(name)}
    others = {license_id(other) for other in LICENSES if other != name}
    assert license_id(name) not in others


@given(st.text(string.printable))
def test_the_id_of_a_license_is_its_own(text: str) -> None:
    assert license_id(license_id(text)) == license_id(text)


def test_only_records_with_a_required_license_are_kept(tmp_path: Path) -> None:
    spellings = [one for own in LICENSES.values() for one in own]
    rows = [
        {"text": f"text {number}", "terms": one, "kind": number}
        for number, one in enumerate([*spellings, "", None, "all rights reserved"])
    ]
    source = as_lines(tmp_path / "source", rows)
    options = {"license_column": "terms", "require_license": "CC-BY-4.0,MIT"}
    report = build(source, tmp_path / "set", **options, keep_columns="terms")
    allowed = {*LICENSES["CC-BY-4.0"], *LICENSES["MIT"]}
    kept = {
        one["terms"]
        for split in ("train", "test")
        for one in reader.random_access(tmp_path / "set", split)
    }
    assert kept == allowed
    ledger = report.manifest.ledger
    assert ledger.reasons == {"no-license": 2, "other-license": len(rows) - len(allowed) - 2}
    assert ledger.filtered == len(rows) - len(allowed)
    # It is not a feature, unless it is kept.
    build(source, tmp_path / "other", **options)
    assert "terms" not in next(iter(reader.random_access(tmp_path / "other", "train")))


@pytest.mark.parametrize("copied", [False, True])
def test_repair_finds_the_records_of_an_id(copied: bool, tmp_path: Path) -> None:
    source, out = as_lines(tmp_path / "source", ROWS), tmp_path / "set"
    whole = build(source, out, id_column="key").manifest
    if copied:  # with other times, so that ids alone could say which files were read
        shutil.copytree(source, tmp_path / "copy", copy_function=shutil.copy)
        shutil.rmtree(source)
        (tmp_path / "copy").rename(source)
    shard = out / whole.splits["train"].shards[0].file
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    repair(out)
    assert verify(out)[1] == []
    assert load_manifest(out).root_hash == whole.root_hash


def test_a_mended_record_has_its_own_id(tmp_path: Path) -> None:
    rows = [{"key": f"a{number}", "text": f"text {number}"} for number in range(9)]
    source, out = tmp_path / "lines.jsonl", tmp_path / "set"
    source.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"key": "b", "text": ""}]))
    build(source, out, id_column="key")
    export(out, tmp_path / "files")
    (mended,) = (tmp_path / "files" / "files" / "lines.jsonl").iterdir()
    mended.write_text(json.dumps({"key": "b", "text": "mended"}))
    changes = {"out": str(out), "overwrite": True}
    preprocess(replay_options(out, tmp_path / "files", (), changes))
    assert ids_of(out) == {row["key"]: row["text"] for row in rows} | {"b": "mended"}


def test_a_record_is_removed_by_its_own_id(tmp_path: Path) -> None:
    source, out = as_parquet(tmp_path / "source", ROWS), tmp_path / "set"
    build(source, out, id_column="key")
    compact(out, [ROWS[5]["key"], ROWS[6]["key"]])
    rest = {row["key"]: row["text"] for row in ROWS if row not in ROWS[5:7]}
    assert ids_of(out) == rest
    assert verify(out)[1] == []
