"""Repair from sources with other modification times: a copy, or files that were touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from beam_jobs.repair import repair
from shard_format import load_build, load_manifest, naming, verify_set
from tests.fixtures.damage import files_of
from tests.fixtures.proofs import each_value_once

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(9)} | {"a/same": 0}
NEW = {f"{'ab'[n % 2]}/new{n}": n for n in range(6, 14)}  # some are duplicates of old ones


@pytest.fixture
def grown(write_corpus, begin_set, append_to, tmp_path):
    """Two generations of one folder that has grown, and a file that neither has read."""
    corpus = write_corpus("corpus", OLD)
    (corpus / "a" / "bad-old.jpg").write_bytes(b"no image")
    begin_set(corpus, dedup="near")
    write_corpus("corpus", NEW)
    (corpus / "b" / "bad-new.jpg").write_bytes(b"no image")
    append_to(corpus)
    write_corpus("corpus", {"b/later": 90})
    shutil.copytree(tmp_path / "set", tmp_path / "whole")
    return tmp_path / "set"


def touch(folder: Path, only: str = "*.jpg") -> None:
    for number, path in enumerate(sorted(folder.rglob(only))):
        os.utime(path, ns=(10**18 + number, 10**18 - number))


def check_same(directory: Path, whole: Path) -> None:
    assert verify_set(directory).damages == []
    assert load_manifest(directory).root_hash == load_manifest(whole).root_hash
    assert files_of(directory) == files_of(whole)


LOST = [
    [naming.index_file("train")],
    [naming.quarantine_file(0)],
    [naming.STORED_RECORDS],
    [naming.DUPLICATES],
    ["generations/0001/index/train.arrow"],
    ["generations/0001/duplicates.parquet", "generations/0001/index/test.arrow"],
    [naming.BUILD, "generations/0001/fingerprints/records.arrow"],
]


@pytest.mark.parametrize(("lost", "touched"), each_value_once(LOST, ["*.jpg", "old3.jpg"]))
def test_content_decides(grown, tmp_path, lost, touched):
    touch(tmp_path / "corpus", touched)
    for name in lost:
        (grown / name).unlink()
    done = repair(grown, [str(tmp_path / "corpus")])
    assert (done.left, done.lost) == ([], []), done.reason
    check_same(grown, tmp_path / "whole")


def test_a_list_of_items_that_is_lost(grown, tmp_path):
    name = naming.READ_ITEMS
    (grown / name).unlink()
    assert repair(grown).left == []
    assert (grown / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    (grown / name).unlink()
    touch(tmp_path / "corpus")
    assert repair(grown).left == []
    assert verify_set(grown).damages == []
    assert not (grown / name).exists()


def test_no_empty_folder_is_left_of_a_list_of_items(begin_set, write_corpus, tmp_path):
    begin_set(write_corpus("corpus", OLD))
    touch(tmp_path / "corpus")
    shutil.rmtree(tmp_path / "set" / naming.FINGERPRINTS_DIR)
    done = repair(tmp_path / "set")
    assert done.left == [] and not (tmp_path / "set" / naming.FINGERPRINTS_DIR).exists()


def test_damage_gets_no_checksum_when_a_list_is_written_again(grown, tmp_path):
    """The sources are gone, so both files are."""
    (grown / naming.READ_ITEMS).unlink()
    (grown / naming.STORED_RECORDS).write_bytes(b"damaged")
    shutil.rmtree(tmp_path / "corpus")
    done = repair(grown)
    assert [one.file for one in done.left] == [naming.STORED_RECORDS]
    assert [one.file for one in verify_set(grown).damages] == [naming.STORED_RECORDS]


def test_a_new_build_json_says_nothing_of_files_that_changed(grown, append_to, tmp_path):
    """Else an append would take the new content for what was read."""
    for path in (grown / naming.BUILD, grown / naming.READ_ITEMS):
        path.unlink()
    build = load_build(grown / "generations/0001")
    shutil.copy(tmp_path / "corpus/b/later.jpg", tmp_path / "corpus/a/old0.jpg")
    done = repair(grown, [str(tmp_path / "corpus")])
    assert done.left == [], done.reason
    assert load_build(grown)["build_id"] == ""
    assert build == load_build(grown / "generations/0001")
    report = append_to(tmp_path / "corpus", id_prefix="again")
    assert report.own.ledger.kept == 1 and "later" not in str(report.own.ledger.reasons)
