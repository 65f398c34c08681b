"""A set whose duplicates are in parts is built, verified, compacted and repaired as others.

The number of rows of a part is lowered, so that some duplicates are many.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs import bounds, publishing
from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.options import TextOptions
from beam_jobs.repair import repair
from beam_jobs.report.sections.duplicates import read_clusters
from beam_jobs.run import preprocess
from beam_jobs.stages.plan import list_duplicates
from foundation import storage
from shard_format import (
    InputError,
    duplicates,
    file_info,
    load_manifest,
    naming,
    verify,
    verify_set,
)
from shard_format.duplicates import (
    DUPLICATES_SCHEMA,
    count_duplicates,
    duplicates_files,
    parts_of,
    read_duplicates,
)
from tests.beam_jobs.stages.merge.builds import FORCED, Build
from tests.fixtures.proofs import proof, proofs

PART_ROWS = 8
PARTS = [naming.duplicates_file(number, 8) for number in range(8)]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(duplicates, "PART_ROWS", PART_ROWS)


def documents(path: Path, first: int = 0, others: int = 0) -> None:
    """40 documents in 70 rows; clusters of 2 to 9, of which some have several labels."""
    rows = []
    for number in range(first, first + 40):
        text = f"Document {number} has {number * number} words, and {number % 7} more."
        for copy in range(1 + (number % 3 == 0) + 7 * (number == 20)):
            label = f"class{(number + copy * (number % 6 == 0)) % 3}"
            rows.append({"id": f"{number:02}-{copy}", "text": text, "label": label})
    rows += [
        {"id": f"other-{number}", "text": f"Document {number} has {number * number} words, and "
         f"{number % 7} more.", "label": "class9"} for number in range(others)
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))


def options(folder: Path, source: str = "rows", **values: Any) -> TextOptions:
    path = folder / f"{source}.jsonl"
    if not path.exists():
        documents(path)
    out = values.pop("out", folder / "set")
    values = {
        "split": "train=0.8,test=0.2", "shard_size": "4KiB", "unit_size": "1KiB", "workers": 1,
        "conflicts": "drop", "no_report": True,
    } | values  # fmt: skip
    return TextOptions((str(path),), str(out), text_column="text", **values)


def build(folder: Path, **values: Any) -> Path:
    preprocess(options(folder, **values))
    return folder / "set"


@pytest.fixture
def large(tmp_path, small_parts):
    return build(tmp_path)


def rows_of(root: Any) -> list[dict[str, Any]]:
    batches = [batch for _, batch in read_duplicates(root, load_manifest(root))]
    rows = pa.Table.from_batches(batches, DUPLICATES_SCHEMA).to_pylist()
    return sorted(rows, key=lambda row: (row["kept_id"], row["record_id"]))


def test_parts_together_have_the_rows_of_one_file(tmp_path, monkeypatch):
    small = build(tmp_path / "small")
    monkeypatch.setattr(duplicates, "PART_ROWS", PART_ROWS)
    large = build(tmp_path / "large")
    before, after = load_manifest(small), load_manifest(large)
    assert (before.format_version, after.format_version) == (1, 3)
    assert duplicates_files(before) == [naming.DUPLICATES]
    files = duplicates_files(after)
    assert files == PARTS[: len(files)] and len(files) == 4
    rows = rows_of(small)
    assert PART_ROWS * 2 < len(rows) <= PART_ROWS * 4 and rows == rows_of(large)
    assert {row["split"] for row in rows} == {"train", "test", None}
    assert sum(row["preview"] is not None for row in rows) > 20
    for number, file in enumerate(files):
        table = pq.read_table(large / file)
        assert table.schema.equals(pq.read_table(small / naming.DUPLICATES).schema)
        own = [(row["kept_id"], row["record_id"]) for row in table.to_pylist()]
        assert own == sorted(own)
        assert set(parts_of(table["kept_id"].combine_chunks(), 4).tolist()) <= {number}
    assert count_duplicates(small, before) == count_duplicates(large, after)
    assert verify(large)[1] == []
    others = set(before.files) - {naming.DUPLICATES}
    assert {name: after.files[name] for name in others} == {
        name: before.files[name] for name in others
    }


@pytest.mark.parametrize(
    ("ranges", "change"),
    [
        (3, {"balance": "undersample"}),
        (40, {"conflicts": "keep"}),
        pytest.param(40, {}, marks=proof),
        pytest.param(2, {"conflicts": "keep", "stratify": True}, marks=proof),
    ],
)
def test_ranges_write_the_parts_of_one_worker(tmp_path, ranges, change, small_parts, monkeypatch):
    expected = load_manifest(build(tmp_path / "one", **change))
    monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: FORCED._replace(ranges=ranges))
    for name in ("PLANNED_ROWS", "WAITING_ROWS", "JOINED_ROWS", "EXCHANGED_BYTES"):
        monkeypatch.setattr(bounds, name, 7)
    monkeypatch.delattr("beam_jobs.stages.plan.plan.list_at_once")  # of one worker
    spread = build(tmp_path / "spread", **change)
    assert len(duplicates_files(expected)) == 4
    assert load_manifest(spread) == expected
    assert verify(spread)[1] == []


@pytest.mark.parametrize("previewed", [3, *proofs(1, 7)])
@pytest.mark.parametrize("ranges", [1, 5])
def test_clusters_in_conflict_have_previews_first(tmp_path, ranges, previewed, monkeypatch):
    monkeypatch.setattr(list_duplicates, "_PREVIEWED_CLUSTERS", previewed)
    monkeypatch.setattr(duplicates, "PART_ROWS", PART_ROWS)
    monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: FORCED._replace(ranges=ranges))
    rows = rows_of(build(tmp_path))
    clusters = sorted({(not row["conflict"], row["kept_id"]) for row in rows})
    shown = {row["kept_id"] for row in rows if row["preview"] is not None}
    assert shown == {name for _, name in clusters[:previewed]}


@pytest.mark.parametrize("ranges", [1, *proofs(2)])
@pytest.mark.parametrize("what", ["listed-", "listed.places", *proofs("kept-splits")])
def test_damaged_rows_are_planned_again(tmp_path, what, ranges, small_parts):
    expected = load_manifest(build(tmp_path / "expected")).root_hash
    one = Build(options(tmp_path), FORCED._replace(ranges=ranges))
    one.stage()
    plan = one.plan()
    results = one.shard(plan, one.merge(plan) if plan else [])
    paths = [path for path in one.workspace.plan.glob(f"{what}*") if path.stat().st_size]
    for path in paths:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    if paths:
        with pytest.raises(InputError, match=r"damaged.*un the same command again"):
            one.commit(results)
    Build(options(tmp_path), FORCED._replace(ranges=2)).run()
    assert load_manifest(tmp_path / "set").root_hash == expected


def test_a_part_that_is_written_again_is_the_same(tmp_path, small_parts):
    from beam_jobs.stages.commit.duplicates import duplicates_tasks, write_duplicates_part

    one = Build(options(tmp_path), FORCED._replace(ranges=3))
    one.stage()
    one.plan()
    tasks = duplicates_tasks(4, 3, ["train", "test"])
    written = [write_duplicates_part(task, one.workspace) for task in tasks]
    assert [write_duplicates_part(task, one.workspace) for task in reversed(tasks)] == [
        *reversed(written)
    ]
    for result in written:
        assert file_info(tmp_path / "set" / result.file) == {
            "bytes": result.bytes,
            "sha256": result.sha256,
        }


def test_parts_that_a_killed_build_has_left_are_deleted(tmp_path, small_parts, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("beam_jobs.stages.commit.shard_set.write_quarantine", _die)
        Build(options(tmp_path), FORCED._replace(ranges=2)).run()
    assert (tmp_path / "set" / PARTS[3]).exists()
    for rows, files in ((2 * PART_ROWS, PARTS[:2]), (1 << 20, [naming.DUPLICATES])):
        monkeypatch.setattr(duplicates, "PART_ROWS", rows)
        (tmp_path / "set" / naming.MANIFEST).unlink(missing_ok=True)
        Build(options(tmp_path), FORCED._replace(ranges=2)).run()
        assert duplicates_files(load_manifest(tmp_path / "set")) == files
        assert [one for one in verify_set(tmp_path / "set").damages if one.is_extra] == []
    assert not (tmp_path / "set" / naming.DUPLICATES_DIR).exists()


def test_a_folder_of_others_stays(tmp_path):
    root = build(tmp_path)
    notes = root / naming.DUPLICATES_DIR / "notes.txt"
    notes.parent.mkdir()
    notes.touch()
    compact(root, [rows_of(root)[0]["record_id"]])
    assert notes.exists()
    with pytest.raises(InputError, match="contains 'duplicates', not of the set"):
        build(tmp_path, overwrite=True, seed=1)


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def damage(place: Path) -> None:
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 4
    place.write_bytes(data)


@pytest.mark.parametrize("how", [damage, Path.unlink])
def test_damaged_parts_are_repaired(large, how):
    whole = {file: (large / file).read_bytes() for file in (PARTS[0], PARTS[3])}
    for file in whole:
        how(large / file)
    assert {one.file for one in verify_set(large).damages} == set(whole)
    done = repair(large)
    assert set(done.repaired) == set(whole) and done.left == []
    assert {file: (large / file).read_bytes() for file in whole} == whole
    assert verify(large)[1] == []


@pytest.mark.parametrize("lost", [[naming.DUPLICATES], [naming.MANIFEST]], ids=str)
def test_many_duplicates_of_an_earlier_version_are_repaired(lost, tmp_path, monkeypatch):
    """They are one file, and stay one."""
    root = build(tmp_path)
    expected = load_manifest(root).root_hash
    monkeypatch.setattr(duplicates, "PART_ROWS", PART_ROWS)
    for name in lost:
        (root / name).unlink()
    assert repair(root).left == []
    assert load_manifest(root).root_hash == expected and verify(root)[1] == []


def test_a_lost_manifest_of_a_set_in_parts_is_repaired(large):
    expected = load_manifest(large).root_hash
    (large / naming.MANIFEST).unlink()
    assert repair(large).left == []
    assert load_manifest(large).root_hash == expected


@pytest.mark.parametrize("rows", [PART_ROWS, 1 << 20])
def test_generations_in_parts_are_compacted_by_the_same_rule(tmp_path, rows, monkeypatch):
    """Whatever the parts of each generation were, and with the conflicts that the others have."""
    monkeypatch.setattr(duplicates, "PART_ROWS", rows)
    root = build(tmp_path, conflicts="keep")
    documents(tmp_path / "more.jsonl", 100, 12)
    append(options(tmp_path, "more", append=True, conflicts="keep", id_prefix="more"))
    view = load_manifest(root)
    assert view.format_version == (3 if rows == PART_ROWS else 2)
    assert {Path(name).parts[0] for name in duplicates_files(view)} >= {"generations"}
    before = rows_of(root)
    assert any(row["label"] == "class9" and row["kept_id"][:4] == "rows" for row in before)
    assert verify(root)[1] == []
    shutil.copytree(root, tmp_path / "copy")
    done = compact(root).manifest
    monkeypatch.setattr(duplicates, "PART_ROWS", PART_ROWS)
    for name in ("SORTED_BYTES", "JOINED_ROWS", "EXCHANGED_BYTES"):
        monkeypatch.setattr(bounds, name, 7)
    many = compact(tmp_path / "copy").manifest
    assert len(duplicates_files(done)) == (8 if rows == PART_ROWS else 1)
    assert len(duplicates_files(many)) == 8
    assert verify(root)[1] == verify(tmp_path / "copy")[1] == []
    rows_after = rows_of(root)
    assert rows_after == rows_of(tmp_path / "copy")
    differing = {row["kept_id"] for row in before if row["label"] != row["kept_label"]}
    assert rows_after == [
        row | {"conflict": row["conflict"] or row["kept_id"] in differing} for row in before
    ]
    assert sum(row["conflict"] for row in rows_after) > sum(row["conflict"] for row in before)


def test_removed_records_leave_every_part(large):
    rows = rows_of(large)
    dropped = next(row["record_id"] for row in rows if not row["conflict"])
    kept = next(row["kept_id"] for row in reversed(rows) if not row["conflict"])
    done = compact(large, [dropped, kept])
    assert done.removed == 2
    assert rows_of(large) == [
        row for row in rows if row["record_id"] != dropped and row["kept_id"] != kept
    ]
    assert len(duplicates_files(done.manifest)) == 4 and verify(large)[1] == []


@pytest.mark.parametrize("step", ["_give_name", *proofs("_replace", "_delete_others")])
def test_a_killed_compaction_is_completed(tmp_path, step, small_parts, monkeypatch):
    root = build(tmp_path)
    removed = [row["record_id"] for row in rows_of(root)[:12]]
    shutil.copytree(root, tmp_path / "whole")
    whole = compact(tmp_path / "whole", removed).manifest
    assert duplicates_files(whole) == PARTS[:2]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(publishing, step, _die)
        compact(root, removed)
    assert verify_set(root).damages == []
    assert compact(root, removed).manifest == whole
    assert verify_set(root).damages == [] and rows_of(root) == rows_of(tmp_path / "whole")


def test_the_folder_of_parts_goes_with_the_last_one(large):
    rows = rows_of(large)
    compact(large, [row["record_id"] for row in rows[2:]])
    assert duplicates_files(load_manifest(large)) == [naming.DUPLICATES]
    assert not (large / naming.DUPLICATES_DIR).exists() and verify(large)[1] == []


def test_a_compacted_set_in_parts_is_repaired(tmp_path, small_parts):
    root = build(tmp_path)
    compact(root, [rows_of(root)[0]["record_id"]])
    (root / PARTS[1]).unlink()
    damage(root / PARTS[2])
    assert repair(root).left == [] and verify(root)[1] == []


def test_the_report_shows_the_same_clusters(tmp_path, monkeypatch):
    from beam_jobs.report.sampling import ReportedSet

    def shown(root):
        return read_clusters(ReportedSet(root))

    one = shown(build(tmp_path / "one", no_report=False))
    monkeypatch.setattr(duplicates, "PART_ROWS", PART_ROWS)
    large = build(tmp_path / "large", no_report=False)
    in_parts = shown(large)
    assert len(one) > 8 and (large / naming.REPORT).exists()
    for clusters in (one, in_parts):
        for cluster in clusters:
            for member in cluster.members:
                member.row = 0  # in whatever file
    assert one == in_parts
    assert all(member.preview for cluster in in_parts for member in cluster.members)


def test_a_set_in_a_bucket_has_parts_too(tmp_path, small_parts, memory):
    local = build(tmp_path)
    out = "memory://bucket/set"
    assert preprocess(options(tmp_path, out=out)).manifest == load_manifest(local)
    assert rows_of(storage.Url(out)) == rows_of(local)
    storage.delete(storage.Url(f"{out}/{PARTS[1]}"))
    assert repair(out).left == [] and verify(out)[1] == []


def test_a_set_in_parts_is_replaced(large, tmp_path):
    documents(tmp_path / "other.jsonl", 200)
    preprocess(options(tmp_path, "other", overwrite=True))
    assert all(row["kept_id"] > "other" for row in rows_of(large)) and verify(large)[1] == []
